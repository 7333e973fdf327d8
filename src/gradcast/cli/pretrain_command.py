"""``gradcast pretrain``: only the head start."""

from pathlib import Path
from typing import Annotated

import typer

from gradcast.cli.console import complain
from gradcast.cli.options import (
    FILES,
    MACHINE,
    DataOption,
    DeterministicOption,
    DeviceOption,
    FreshOption,
    MinutesOption,
    ResumeOption,
    StepsOption,
    ThreadsOption,
    data_folder,
)
from gradcast.cli.threads import choose_threads
from gradcast.cli.training_options import Training
from gradcast.cluster.torchrun import joined
from gradcast.devices import Arithmetic, be_deterministic, keep_freed_memory
from gradcast.head_start.pretrain import pretrain as train
from gradcast.head_start.pretrain_options import PoolColour, PoolScale
from gradcast.head_start.pretrained import Pretrained

IMAGES = "Images"  # a part of --help


def pretrain(
    pool: Annotated[
        str, typer.Option(metavar="DIR|ZIP|NAME", help="images without labels: a folder, a zip archive or a known pool")
    ],
    model: Annotated[
        str, typer.Option(metavar="NAME|module:Class", help="a network by name, or your own")
    ] = "slim-resnet18",
    steps: Annotated[int, typer.Option(min=1, help="steps of the head start")] = 6000,
    batch: Annotated[int, typer.Option(min=1, help="images a step, each in two views or as the signal wants")] = 512,
    out: Annotated[Path, typer.Option(help="the file of weights to write", rich_help_panel=FILES)] = Path(
        "weights.safetensors"
    ),
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="change a key of model, head_start or pool, e.g. model.width=32; repeatable",
        ),
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="pixels a side", rich_help_panel=IMAGES)] = 32,
    colour: Annotated[PoolColour, typer.Option(help="what the network sees", rich_help_panel=IMAGES)] = "rgb",
    normalise: Annotated[PoolScale, typer.Option(help="as stream.normalise", rich_help_panel=IMAGES)] = "unit",
    seed: Annotated[int, typer.Option(min=0, help="of weights, batches and views")] = 0,
    data: DataOption = None,
    device: DeviceOption = "auto",
    dtype: Annotated[
        Arithmetic, typer.Option(help="arithmetic; tf32 and bf16 need a GPU", rich_help_panel=MACHINE)
    ] = "float32",
    threads: ThreadsOption = None,
    checkpoint_minutes: MinutesOption = 10.0,
    checkpoint_steps: StepsOption = None,
    resume: ResumeOption = False,
    fresh: FreshOption = False,
    deterministic: DeterministicOption = False,
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
    choose_threads(1 if deterministic else threads, device)
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
