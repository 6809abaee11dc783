"""How many kills a reduction survives: `kill -9` of the tool, or of its whole process group, at random moments.

    python benchmarks/survival.py [--kills 160] [--browser-kills 40] [--helper-kills 60] [--seed 1]

After each kill nothing may be left running, and what lies in the folder must load with its inputs. Then the same
command goes on, and is killed again, until it ends by itself: with the very bytes that an undisturbed run leaves.
The last rows are about runs under which their own helpers are killed: workers, and processes of the browser.
Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import faults  # noqa: E402
from killed import Tally, Task, answered, kill_helpers, kill_until_done, undisturbed  # noqa: E402

IN_A_ROW = 8
"""Kills of one reduction, at most."""
HELPERS_A_RUN = 3
HELPERS = {"native": ["worker"], "browser": ["main", "gpu-process", "renderer"]}
HEAD = (
    "oracle", "kills", "runs brought to their end", "with another result", "verdicts paid twice", "passed over",
    "left running", "folders that do not load",
)  # fmt: skip


def native(folder: Path) -> Task:
    """A fault of the installed onnxruntime in a healthy graph of 203 nodes, by level against level."""
    folder.mkdir()
    model, _ = faults.save(faults.hosted(), folder)
    (folder / "levels.toml").write_text(faults.LEVELS)
    return Task(model, ["--oracle", folder / "levels.toml"])


def browser(folder: Path) -> Task:
    """The founding fault at depth 3, in a browser."""
    folder.mkdir()
    subprocess.run([sys.executable, ROOT / "examples" / "founding_models.py", "-o", folder], check=True)
    return Task(folder / "synth_depth3.onnx", ["--oracle", "webgpu-vs-wasm"])


def drawn(rng: random.Random, seconds: float, verdicts: int, count: int) -> list[tuple[float, int]]:
    """Moments by the clock, for what comes before and after the search, and by the state of the search in order."""
    by_clock = [(rng.uniform(0, seconds), 0) for _ in range(count // 4)]
    return by_clock + [
        (0.05 * rng.random(), at) for at in sorted(rng.choices(range(verdicts), k=count - len(by_clock)))
    ]


def campaign(task: Task, folder: Path, kills: int, rng: random.Random, kinds: Sequence[str]) -> Tally:
    """`kinds`: of helpers that are killed, in place of the tool."""
    tally = Tally()
    expected, seconds = undisturbed(task, folder / "undisturbed")
    verdicts = answered(folder / "undisturbed" / "to")
    while tally.kills < kills:
        if kinds:
            drawn_at = sorted(rng.sample(range(0, verdicts, 4), k=min(HELPERS_A_RUN, kills - tally.kills)))
            moments = [(at, 0.1 * rng.random(), rng.choice(kinds)) for at in drawn_at]
            kill_helpers(task, folder / str(tally.ended), expected, moments, tally)
            print(f"{tally.kills} kills, differing {tally.differing}", file=sys.stderr, flush=True)
            continue
        row = min(IN_A_ROW, kills - tally.kills)
        kill_until_done(task, folder / str(tally.ended), expected, drawn(rng, seconds, verdicts, row), tally)
        print(f"{tally.kills} kills, {tally.ended} ended, differing {tally.differing}", file=sys.stderr, flush=True)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=160)
    parser.add_argument("--browser-kills", type=int, default=40)
    parser.add_argument("--helper-kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    good = True
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    helpers = asked.helper_kills // 2
    for name, make, kills, kinds in (
        ("native", native, asked.kills, []),
        ("browser", browser, asked.browser_kills, []),
        ("native, its workers", native, helpers, HELPERS["native"]),
        ("browser, its processes", browser, helpers, HELPERS["browser"]),
    ):
        if not kills:
            continue
        with tempfile.TemporaryDirectory(prefix="survival-") as place:
            task = make(Path(place) / "model")
            tally = campaign(task, Path(place), kills, random.Random(asked.seed), kinds)
        counts = (tally.kills, tally.ended, len(tally.differing), tally.paid_twice, tally.passed_over)
        row = f"| {name} | {' | '.join(map(str, counts))} | {len(tally.left_running)} | {len(tally.unusable)} |"
        print(row, flush=True)
        for what in (*tally.differing, *tally.left_running, *tally.unusable):
            print(f"  {what}", file=sys.stderr)
        good = good and tally.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
