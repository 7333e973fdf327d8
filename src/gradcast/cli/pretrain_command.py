"""``gradcast pretrain``: only the head start."""

from pathlib import Path
from typing import Annotated

import typer

from gradcast.cli.console import complain
from gradcast.cli.options import DataOption, DeviceOption, ThreadsOption, data_folder
from gradcast.cli.training_options import Training
from gradcast.cluster.torchrun import joined
from gradcast.devices import Arithmetic, be_deterministic, keep_freed_memory, use_threads
from gradcast.head_start.pretrain import pretrain as train
from gradcast.head_start.pretrain_options import PoolColour, PoolScale
from gradcast.head_start.pretrained import Pretrained


def pretrain(
    pool: Annotated[
        str, typer.Option(metavar="DIR|ZIP|NAME", help="images without labels: a folder, a zip archive or a known pool")
    ],
    model: Annotated[
        str, typer.Option(metavar="NAME|module:Class", help="a network by name, or your own")
    ] = "slim-resnet18",
    steps: Annotated[int, typer.Option(min=1, help="how many")] = 6000,
    batch: Annotated[int, typer.Option(min=1, help="images a step, each in two views or as the signal wants")] = 512,
    out: Annotated[Path, typer.Option(help="the file of weights to write")] = Path("weights.safetensors"),
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="change a key of model, head_start or pool, e.g. model.width=32; repeatable",
        ),
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="pixels a side")] = 32,
    colour: Annotated[PoolColour, typer.Option(help="what the network sees")] = "rgb",
    normalise: Annotated[PoolScale, typer.Option(help="as stream.normalise")] = "unit",
    seed: Annotated[int, typer.Option(min=0, help="of weights, batches and views")] = 0,
    data: DataOption = None,
    device: DeviceOption = "auto",
    dtype: Annotated[Arithmetic, typer.Option(help="arithmetic; tf32 and bf16 need a GPU")] = "float32",
    threads: ThreadsOption = None,
    checkpoint_minutes: Annotated[float, typer.Option(min=0, help="minutes between checkpoints; 0: none")] = 10.0,
    checkpoint_steps: Annotated[int | None, typer.Option(min=1, help="steps between checkpoints")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with an unfinished one, or fail")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="start an unfinished one over")] = False,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="the same bits every time, at one thread's speed")
    ] = False,
) -> None:
    """Train a network on images without labels and write its weights: only the head start.

    The file holds all layers but the output layer, which no head start trains.
    The same command goes on after an interruption, on a CPU to the same bytes.
    """
    safety = Training(
        checkpoint_minutes=checkpoint_minutes, checkpoint_steps=checkpoint_steps, resume=resume, fresh=fresh
    ).safety
    if deterministic:
        be_deterministic(threads)
    use_threads(1 if deterministic else threads)
    keep_freed_memory()
    with joined(complain) as ranks:
        made = train(
            pool,
            model,
            steps=steps,
            batch=batch,
            out=out,
            settings=settings or [],
            size=size,
            colour=colour,
            normalise=normalise,
            seed=seed,
            data=data_folder(data),
            device=device,
            dtype=dtype,
            progress=True,  # in a file too: a line a minute
            safety=safety,
            ranks=ranks,
        )
        _print(made, model)


def _print(made: Pretrained, model: str) -> None:
    """Where the weights are, how the loss went, and how to use them."""
    name = f"model.name=python --set model.path={model}" if ":" in model else f"model.name={model}"
    typer.echo(f"The weights of {model} are in {made.path}: {made.progress}. To use them:")
    typer.echo(f"  gradcast run ... --set {name} --set model.weights={made.path}")
    typer.echo("  from safetensors.torch import load_file")
    typer.echo(f'  network.load_state_dict(load_file("{made.path}"), strict=False)')
