"""Record short float64 runs of everything that trains, on the CPU, and compare two recordings to 1e-12.

    python tools/record_runs.py record DIR [PATTERN ...]   # trains all runs (or 'acl-*') into DIR/NAME; some minutes
    python tools/record_runs.py compare DIR_A DIR_B        # exit code 1 where accuracies or weights differ

For work that shall not change results: record before it, record after it on the same machine, compare. Only the command
line is used, so modules may move; where keys of a specification change, adapt the tables below.
"""

import json
import multiprocessing
import os
import sys
import time
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from typer import echo

TOLERANCE = 1e-12  # largest difference, relative to the largest magnitude of the tensor or accuracy matrix
NOTHING = 1e-13  # a tensor that is smaller than that is rounding alone, such as a bias before BatchNorm

# Words that stand for settings of a specification. Sizes are small, and signals strong, so that they really matter.
LEARNERS = "gem er finetune joint acl pnn"  # words that stand for themselves
SIGNALS = "none soft one-hot noise meta-gradient forward-only contrastive distil rotation"
WORDS = """
    one: dtype=float64 seeds=[0,1] row=[{name="run"}]; all: dtype=float64 seeds=[0,1]; twice: stream.epochs=2
    small: stream.tasks=3 stream.samples=100 model.hidden=[32,24] learner.memory=20 policy.p=0.6 policy.start=3
    dcl: learner.name=dcl learner.interval=4; a-gem: learner.name=a-gem learner.reference=16; large: stream.batch=64
    mean-teacher: signal.name=mean-teacher signal.ema=0.9; true-labels: signal.name=true-labels pool.name=held-out
    predicted: signal.name=predicted signal.hidden=[16,8] signal.alpha=0.1 signal.loss_scale=5.0; slow: learner.lr=0.01
    uniform: signal.distribution=uniform; protected: signal.protected=true; scaled: signal.scaled=true signal.alpha=0.1
    mix-up: signal.mix_up=0.5 signal.weight=0.5; adam: signal.optimizer=adam signal.lr=0.01; meta: signal.objective=meta
    affine: signal.activation=none signal.bias=true; untrained: signal.directions=frozen; guard: policy.guard=true
    momentum: signal.activation=tanh signal.momentum=0.9 signal.decay=0.01; cosine: signal.objective=cosine
    exact: signal.objective=meta-exact; per-sample: signal.tau=per_sample policy.batch=10; free: policy.project=false
    sequential: policy.update=sequential; average: evaluation.average=5; norm: model.norm=batch
    split: stream.scenario=split stream.classes_per_task=3; mlp: model.name=mlp model.hidden=[32]
    separate: policy.batchnorm=separate; memory-separate: learner.batchnorm=separate; labelled: signal.labelled=true
    frozen: policy.batchnorm=frozen; memory-frozen: learner.batchnorm=frozen; seen: signal.outputs=seen
    resnet: model.name=slim-resnet18 model.width=4 stream.samples=50 stream.batch=25 policy.batch=10 policy.start=1
    b0: model.name=efficientnet-b0 model.upsample=32 stream.tasks=2 stream.samples=25 learner.lr=0.001 policy.p=1.0
    small-acl: stream.tasks=3 stream.classes_per_task=3 policy.p=0.6 model.latent=32 learner.private_width=8
    hat: learner.name=hat learner.steepest=20; memory: learner.memory=12; tiny: learner.lr=0.001; fast: learner.lr=1.0
    sgd: learner.updates=2 learner.momentum=0.9; restart: stream.tasks=1 schedule.epochs=7 schedule.above_chance=0.6
    small-ssl: schedule.steps=40 schedule.warm_up=4 schedule.ramp=8 schedule.milestones=[24,32] schedule.test_every=20
    hidden: model.hidden=[32]; mg: signal.name=meta-gradient signal.mix_up=1.0
    plain-sgd: learner.momentum=0.0 learner.decay=0.0
    pairs: stream.batch=32 policy.batch=32; two-steps: schedule.steps=2 schedule.test_every=2 schedule.milestones=[]"""

# Family: command, preset, what all its runs set, and the runs. A run is the words and settings that it adds, which also
# are its name if no other stands before a colon. Runs of ``epochs`` repeat a stream that is meant to pass once.
FAMILIES = {
    "digits-all": ("run", "digits", "all small", "rows:"),
    "digits": ("run", "digits", "one small none", """
        gem; dcl; a-gem; er; finetune; gem split; dcl split; a-gem split; er split; finetune split; er norm split
        drop-last: er norm split evaluation.drop_last=true; permuted: stream.scenario=permuted stream.ratio=0.75
        eps: learner.qp_eps=0.01 learner.margin=0.0; sign: dcl learner.sign=-1; perturbed: model.perturbation=0.01
        predicted; predicted split; predicted adam; predicted affine; predicted momentum; predicted untrained
        predicted cosine; predicted per-sample; dcl predicted; a-gem predicted; er predicted; finetune predicted
        one-hot; one-hot scaled; one-hot protected; one-hot seen protected split; dcl one-hot protected; er one-hot
        soft; soft scaled; soft protected; soft seen split; true-labels; true-labels scaled; distil; distil split
        meta-gradient; meta-gradient mix-up; meta-gradient split; er meta-gradient; rotation; finetune rotation
        noise slow; noise uniform slow; noise scaled; noise uniform scaled; forward-only norm; contrastive
        contrastive labelled; er contrastive; er contrastive labelled split; guard noise scaled; guard er contrastive
        sequential predicted; sequential dcl one-hot; sequential er contrastive; sequential free noise scaled
        average predicted; average er contrastive norm tiny; views: contrastive signal.augment=["rotate"]
        free predicted; augmented: predicted stream.augment=["crop","jitter"] pool.augment=["flip","resized-crop"]
        grey: predicted pool.name=grey pool.scale=reference; pixels: predicted pool.name=pixels pool.ratio=0.5
        pool-digits: one-hot pool.name=digits pool.transform=cub stream.normalise=standard"""),
    "epochs": ("run", "digits", "one small none twice", "gem; dcl; a-gem; er; finetune; predicted; gem split"),
    "norm": ("run", "digits", "one small norm slow predicted", """
        gem; separate; frozen; memory-separate; memory-frozen; dcl separate memory-frozen; a-gem memory-separate
        distil separate; meta-gradient; one-hot protected; contrastive frozen"""),
    "networks": ("run", "digits", "one small resnet slow predicted", """
        gem; separate; frozen memory-frozen; er contrastive labelled average separate split; finetune split b0"""),
    "acl-all": ("run", "acl-digits", "all small-acl sgd slow", "rows:"),
    "acl": ("run", "acl-digits", "one small-acl sgd slow none", """
        acl memory; acl predicted memory; unlabelled: acl predicted learner.private_input=unlabelled
        acl one-hot; acl noise scaled; hat; hat predicted; pnn; pnn predicted; joint; joint predicted
        resnet: acl large model.name=slim-resnet18 model.width=4 schedule.epochs=1 learner.updates=1 stream.tasks=2
        finetune restart mlp fast; reference: finetune restart mlp fast schedule.reset=reference; joint mlp norm
        gem memory; gem predicted memory; dcl memory; er memory; er contrastive memory; a-gem memory; finetune
        a-gem predicted memory; gem soft free memory; gem distil memory; gem predicted memory mlp; er memory mlp
        finetune one-hot; acl-restart: acl restart learner.lr=0.5 learner.updates=3"""),
    "ssl-all": ("ssl", "digits-100", "all small-ssl hidden pairs row.mean-teacher.schedule.ramp=20", "rows:"),
    "ssl": ("ssl", "digits-100", "one small-ssl hidden pairs", """
        mg predicted; mg predicted meta; mg predicted exact; mg predicted adam; mg predicted untrained
        mg predicted cosine; plain: meta-gradient; mg one-hot; mg soft scaled; mg noise slow
        mg noise uniform scaled; augmented: mg stream.augment=["crop","flip"]; plain-sgd predicted; mean-teacher soft
        plain-sgd predicted meta; plain-sgd noise scaled; plain-sgd one-hot scaled; plain-sgd soft; mean-teacher
        mean-teacher predicted meta; mean-teacher one-hot; mean-teacher noise scaled
        conv-large: mg model.name=conv-large stream.size=12 two-steps stream.batch=8 policy.batch=8"""),
}  # fmt: skip


def entries(text: str) -> dict[str, list[str]]:
    """What stands between semicolons or line ends: a name and, behind a colon, words; or words that are the name."""
    parts = [entry.partition(":") for entry in text.replace("\n", ";").split(";") if entry.strip()]
    return {"-".join(name.split()): (words if colon else name).split() for name, colon, words in parts}


def runs() -> dict[str, list[str]]:
    """The command line of every run."""
    known, found = entries(WORDS), dict[str, list[str]]()
    known |= {name: [f"learner.name={name}"] for name in LEARNERS.split()}
    known |= {name: [f"signal.name={name}"] for name in SIGNALS.split()}
    for family, (command, preset, common, text) in FAMILIES.items():
        for name, own in entries(text).items():
            settings = [setting for word in (*common.split(), *own) for setting in known.get(word, [word])]
            if command == "ssl":
                settings = several(settings)
            found[f"{family}-{name}"] = [command, preset, *(f"--set={setting}" for setting in settings)]
    return found


def several(settings: list[str]) -> list[str]:
    """Settings of one signal after another as the list of a row with several signals."""
    tables: list[list[str]] = []
    for key, value in (setting.removeprefix("signal.").split("=", 1) for setting in settings if "signal." in setting):
        tables += [[]] if key == "name" else []
        tables[-1].append(f"{key}={value if value[:1] in '[0123456789' or value in ('true', 'false') else repr(value)}")
    listed = ", ".join("{" + ", ".join(table) + "}" for table in tables)
    others = [setting for setting in settings if "signal." not in setting]
    return [*others, f"signal=[{listed}]"] if tables else others


def train(arguments: list[str], folder: Path) -> None:
    """In a process of its own: the command line, what it prints in a file."""
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(log, stream)
    sys.argv = ["gradcast", *arguments, "--device=cpu", "--threads=1", f"--out={folder}"]
    import_module("gradcast.cli.app").main()


def record(to: Path, patterns: list[str]) -> bool:
    """Train the runs whose names match; whether all succeeded."""
    if to.exists() and any(to.iterdir()):
        sys.exit(f"{to} is not empty, and what is finished there would not be trained again; choose another folder")
    os.environ["OMP_NUM_THREADS"] = "1"
    for slow in ("sklearn.datasets", "scipy.stats", "matplotlib.figure", "torch.fx.experimental.symbolic_shapes"):
        import_module(slow)  # once for all runs, which begin as copies of this process
    echo(f"recording {import_module('gradcast.cli.app').__file__} into {to}")
    begin, failed = time.monotonic(), 0
    chosen = [name for name in runs() if any(fnmatch(name, pattern) for pattern in patterns or ["*"])]
    for name in chosen:
        start, folder = time.monotonic(), to / name
        folder.mkdir(parents=True)
        child = multiprocessing.get_context("fork").Process(target=train, args=(runs()[name], folder))
        child.start()
        child.join()
        error = f"  FAILED: {(folder / 'log.txt').read_text().strip()[-300:]}" if child.exitcode else ""
        echo(f"{time.monotonic() - start:6.1f} s  {name}{error}")
        failed += bool(child.exitcode)
    echo(f"{len(chosen)} runs in {time.monotonic() - begin:.0f} s, {failed} failed")
    return bool(chosen) and not failed


def numbers(run: Path) -> dict[str, np.ndarray]:
    """All that finished replicas hold by ROW/seed-N and name; what was logged has gaps where a step says nothing."""
    found: dict[str, np.ndarray] = {}
    for file in run.glob("*/*/seed-*/weights.safetensors"):
        arrays = load_file(file)
        arrays["accuracy.csv"] = np.genfromtxt(file.parent / "accuracy.csv", delimiter=",", skip_header=1)
        lines = [json.loads(line) for line in (file.parent / "metrics.jsonl").read_text().splitlines()]
        for name in {name for line in lines for name in line}:
            arrays[f"logged {name}"] = np.array([line.get(name) for line in lines], float)
        found |= {f"{'/'.join(file.parts[-3:-1])} {name}": array for name, array in arrays.items()}
    return found


def difference(x: np.ndarray | None, y: np.ndarray | None) -> tuple[float, float]:
    """Largest absolute difference, and the same relative to the largest magnitude; infinite where none can be told."""
    if x is None or y is None or x.shape != y.shape or x.dtype != y.dtype or (np.isnan(x) != np.isnan(y)).any():
        return np.inf, np.inf
    gap, *sizes = (float(np.nan_to_num(abs(each)).max(initial=0)) for each in (x - y, x, y))
    return gap, gap / max(sizes) if max(sizes) > NOTHING else 0.0


def compare_run(a: Path, b: Path) -> bool:
    """A line about one run, and one about each array that makes it another."""
    ours, theirs = numbers(a), numbers(b)
    found = {name: difference(ours.get(name), theirs.get(name)) for name in sorted(ours.keys() | theirs.keys())}
    kept = {name: both for name, both in found.items() if " logged " not in name}
    logged = max((share for name, (_, share) in found.items() if name not in kept), default=0.0)
    absolute, relative = (max((both[i] for both in kept.values()), default=np.inf) for i in (0, 1))
    wrong = [] if kept else ["nothing was recorded"]
    for name, (gap, share) in kept.items():
        missing = "" if name in ours and name in theirs else f", missing in {'B' if name in ours else 'A'}"
        wrong += [f"{name}: absolute {gap:.1e}, relative {share:.1e}{missing}"] if share > TOLERANCE else []
    line = f"absolute {absolute:.1e}  relative {relative:.1e}  logged {logged:.1e}  {len(kept):3} arrays  {a.name}"
    echo("\n         ".join([f"{'DIFFERS' if wrong else 'same':7}  {line}", *wrong]))
    return not wrong


def compare(a: Path, b: Path) -> bool:
    """Whether there are runs and all are the same; what was logged is shown, and not judged."""
    names = sorted({folder.name for side in (a, b) for folder in side.iterdir() if folder.is_dir()})
    same = sum(compare_run(a / name, b / name) for name in names)
    echo(f"{same} of {len(names)} runs are the same")
    return 0 < same == len(names)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", to, *patterns]:
            sys.exit(not record(Path(to), patterns))
        case ["compare", a, b]:
            sys.exit(not compare(Path(a), Path(b)))
    sys.exit(__doc__)
