"""How many kills a reduction survives: `kill -9` of the tool, or of its whole process group, at random moments.

    python benchmarks/survival.py [--kills 160] [--browser-kills 40] [--seed 1]

After each kill nothing may be left running, and what lies in the folder must load with its inputs. Then the same
command goes on, and is killed again, until it ends by itself: with the very bytes that an undisturbed run leaves.
Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import faults  # noqa: E402
from killed import Tally, Task, kill_until_done, undisturbed  # noqa: E402

IN_A_ROW = 8
"""Kills of one reduction, at most."""
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


def campaign(task: Task, folder: Path, kills: int, rng: random.Random) -> Tally:
    tally = Tally()
    expected, seconds = undisturbed(task, folder / "undisturbed")
    while tally.kills < kills:
        moments = [(rng.uniform(0, seconds), 0) for _ in range(min(IN_A_ROW, kills - tally.kills))]
        kill_until_done(task, folder / str(tally.ended), expected, moments, tally)
        print(f"{tally.kills} kills, {tally.ended} ended, differing {tally.differing}", file=sys.stderr, flush=True)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=160)
    parser.add_argument("--browser-kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    good = True
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for name, make, kills in (("native", native, asked.kills), ("browser", browser, asked.browser_kills)):
        if not kills:
            continue
        with tempfile.TemporaryDirectory(prefix="survival-") as place:
            task = make(Path(place) / "model")
            tally = campaign(task, Path(place), kills, random.Random(asked.seed))
        counts = (tally.kills, tally.ended, len(tally.differing), tally.paid_twice, tally.passed_over)
        print(f"| {name} | {' | '.join(map(str, counts))} | {len(tally.left_running)} | {len(tally.unusable)} |")
        for what in (*tally.differing, *tally.left_running, *tally.unusable):
            print(f"  {what}", file=sys.stderr)
        good = good and tally.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
