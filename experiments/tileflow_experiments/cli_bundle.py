"""``tileflow bundle``: build bundles, look at their snapshots, take rows out, roll back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tileflow.errors import SpecError

from .here import comma_separated, import_from_here, named_path

bundles = typer.Typer(help="Build bundles, look at their snapshots, take rows out, roll back.", no_args_is_help=True)

BundlePath = Annotated[Path, typer.Argument(parser=named_path, help="A bundle's directory.")]
Keep = Annotated[
    int | None, typer.Option(help="How many snapshots to leave, the new one among them.", show_default="all")
]


@bundles.command("build")
def build_bundle(
    dest: Annotated[
        Path, typer.Argument(parser=named_path, help="The bundle's directory, new or with older snapshots.")
    ],
    devices: Annotated[str, typer.Option(help="Device classes of the catalogue, separated by commas.")],
    kernels: Annotated[str, typer.Option(help="module:kernel, separated by commas; all of --problems.")] = "",
    problems: Annotated[
        Path | None,
        typer.Option(parser=named_path, help="A YAML file with `kernels`, as in a sweep's spec: their problems."),
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option(
            parser=named_path, help="The same for --kernels without --problems: they show kinds of arguments, no more."
        ),
    ] = None,
    processes: Annotated[int, typer.Option(help="That compile; 0: one a core.")] = 0,
    keep: Keep = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Write a Python package of the kernels, with the bundle inside.")
    ] = False,
) -> None:
    """Build a bundle without a sweep or a GPU: defaults that take any size, and the problems' default configs."""
    from tileflow.runtime import Bundle
    from tileflow.runtime.show import summary

    from . import offline
    from .spec import KernelSpec, read_kernels
    from .standalone import write_package

    import_from_here()
    given = {} if problems is None else {spec.kernel: spec for spec in read_kernels(problems)}
    names = comma_separated(kernels) or list(given)
    if not names:
        raise SpecError("a bundle must have kernels", got="neither --kernels nor --problems", where="--kernels")
    classes = comma_separated(devices)
    if not classes:
        raise SpecError(
            "a bundle must be for a device class", got=repr(devices), where="--devices", hint="--devices nvidia-h200"
        )
    wanted = [given.get(name, KernelSpec(name, ())) for name in names]
    shown = () if examples is None else read_kernels(examples)

    def build(folder: Path) -> Bundle:
        return offline.build_bundle(offline.orders(wanted, shown, classes), folder, processes, keep)

    kernel_names = [spec.kernel for spec in wanted]
    built = write_package(dest, kernel_names, build) if standalone else build(dest)
    typer.echo(summary(built))


@bundles.command("show")
def show_bundle(path: BundlePath) -> None:
    """Print the rows of the current snapshot."""
    from tileflow.runtime.show import lines

    for line in lines(path):
        typer.echo(line)


@bundles.command("snapshots")
def show_snapshots(path: BundlePath) -> None:
    """Print the snapshots' digests, the current one first, then those before it."""
    from tileflow.runtime.show import snapshot_lines

    for line in snapshot_lines(path):
        typer.echo(line)


@bundles.command("verify")
def verify_bundle(path: BundlePath) -> None:
    """Check every digest of the current snapshot: tables and machine code."""
    from tileflow.runtime.bundle import load_bundle
    from tileflow.runtime.show import summary

    typer.echo(f"{summary(load_bundle(path))}: valid")


@bundles.command("switch")
def switch_bundle(
    path: BundlePath,
    digest: Annotated[str | None, typer.Argument(help="How it begins.", show_default="the one before")] = None,
) -> None:
    """Make another snapshot the current one, for who loads the bundle from now on."""
    from tileflow.runtime.show import summary
    from tileflow.runtime.snapshots import switch

    typer.echo(summary(switch(path, digest)))


@bundles.command("withdraw")
def withdraw_rows(
    path: BundlePath,
    kernel: Annotated[str, typer.Argument(metavar="MODULE:KERNEL")],
    device: Annotated[str | None, typer.Option(help="A device class.", show_default="all")] = None,
    problem: Annotated[
        str | None, typer.Option(help="A row's key, as `bundle show` prints it.", show_default="all")
    ] = None,
    keep: Keep = None,
) -> None:
    """Make a snapshot without a kernel, or without its rows of a device class, for a problem, or of both."""
    from tileflow.runtime.show import summary
    from tileflow.runtime.snapshots import withdraw

    typer.echo(summary(withdraw(path, kernel, device, problem, keep=keep)))


@bundles.command("replace")
def replace_rows(
    path: BundlePath,
    other: Annotated[Path, typer.Argument(parser=named_path, help="Another bundle.")],
    is_merged: Annotated[
        bool, typer.Option("--merge", help="Keep the better row of each problem, not only the other's.")
    ] = False,
    keep: Keep = None,
) -> None:
    """Make a snapshot in which another bundle's kernels stand for those of the same name."""
    from tileflow.runtime.show import summary
    from tileflow.runtime.snapshots import take_over

    typer.echo(summary(take_over(path, other, is_merged=is_merged, keep=keep)))


@bundles.command("prune")
def prune_bundle(path: BundlePath, keep: Annotated[int, typer.Option(help="How many snapshots to leave.")]) -> None:
    """Remove old snapshots; servers that read one lazily can read no more of it."""
    from tileflow.runtime.snapshots import prune

    for digest in prune(path, keep):
        typer.echo(f"removed {digest}")
