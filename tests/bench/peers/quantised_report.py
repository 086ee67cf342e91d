"""The best of each program over the rounds of quantised.sh, and ratios: quantised_report.py OUT_DIR"""

import collections
import json
import pathlib
import sys


def main():
    best = collections.defaultdict(dict)  # (mix, case) -> program -> tokens/s
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
        mix, _, program = path.name.split(".")[:3]
        for case, value in json.loads(path.read_text())["results"].items():
            at = best[mix, case]
            at[program] = max(value, at.get(program, 0))
    print(f"{'tokens/s':30}{'as-is':>9}{'bfloat16':>10}{'llama.cpp':>11}   as-is / bfloat16, / llama.cpp")
    for (mix, case), at in sorted(best.items()):
        values = [at.get(name, float("nan")) for name in ("as-is", "bfloat16", "llama")]
        mine = values[0]
        print(f"{mix + ' ' + case:30}{mine:9.1f}{values[1]:10.1f}{values[2]:11.1f}   {mine / values[1]:16.2f}  {mine / values[2]:9.2f}")


if __name__ == "__main__":
    main()
