"""`bayesnn completion`: what a shell needs to complete commands, options and values."""

from bayesnn_ppl.cli.shared.options import Argument, Command, Output
from bayesnn_ppl.cli.shared.output import print_json
from bayesnn_ppl.settings.value_kinds import choice

__all__ = ["COMMAND"]


def run_completion(shell: str, *, output: Output) -> int:
    """Print the script of one shell."""
    from bayesnn_ppl.cli.app import whole_app

    script = whole_app().generate_completion(prog_name="bayesnn", shell=shell)  # type: ignore[arg-type]
    if output.json:
        print_json({"shell": shell, "script": script})
    else:
        print(script)
    return 0


COMMAND = Command(
    "completion",
    "print the script with which a shell completes what is typed",
    run_completion,
    (
        Argument(
            "shell",
            "the shell whose script is printed",
            "{bash,zsh,fish}",
            read=choice("bash", "zsh", "fish"),
        ),
    ),
)
