"""Runs `lean bench` and llama.cpp by turns and prints medians and their ratios. Started by compare_llama.sh."""

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def lean(args, threads):
    command = [os.environ["LEAN_BIN"], "bench", args.file, "--json", "--backend", "cpu", "--runs", "1"]
    command += ["--precision", args.precision]
    command += ["--threads", threads, "--prefill", args.prefill, "--decode", args.decode, "--depth", args.depth]
    out = json.loads(run(command + ["--cancel", 0, "--checkpoint", 0]))
    return {
        "load_seconds": out["load_seconds"],
        "first_token_seconds": out["first_token_seconds"],
        "share": 100 * out["decode_tokens_per_second"] * out["weight_bytes"] / out["machine"]["read_bytes"],
        "prefill": out["prefill_tokens_per_second"],
        "decode": out["decode_tokens_per_second"],
        "decode_at_depth": out["decode_tokens_per_second_at_depth"],
    }


def llama(args, threads):
    if "LLAMA_BENCH" in os.environ:
        return llama_bench(args, threads)
    script = "llama_speed.py" if importlib.util.find_spec("llama_cpp") else "llama_wheel.py"
    command = [sys.executable, HERE / script, args.file, threads, args.prefill, args.decode, args.depth]
    return json.loads(run(command).splitlines()[-1])


def llama_bench(args, threads):
    def bench(prefill, decode, depth):
        command = [os.environ["LLAMA_BENCH"], "-m", args.file, "-t", threads, "-ngl", 0, "-r", 1, "-o", "json"]
        tests = json.loads(run(command + ["-p", prefill, "-n", decode, "-d", depth]))
        return {("decode" if t["n_gen"] else "prefill"): t["avg_ts"] for t in tests}

    speeds = bench(args.prefill, args.decode, 0)
    if args.depth:
        speeds["decode_at_depth"] = bench(0, args.decode, args.depth)["decode"]
    return speeds


def run(command):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout


@contextlib.contextmanager
def busy(count):
    """That many foreign processes which compute all the time."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--depth", type=int, default=4096, help="0 leaves the decode at a depth out")
    parser.add_argument("--precision", default="exact", help="lean's: exact or fast")
    parser.add_argument("--busy", type=int, default=0, help="foreign processes that compute meanwhile")
    args = parser.parse_args()
    with busy(args.busy):
        table(args)


def table(args):
    print(f"{pathlib.Path(args.file).name}: medians of {2 * args.rounds} runs each, by turns, in tokens/s; lean {args.precision}, {args.busy} other processes busy\n")
    print("| threads | measure | lean | llama.cpp | ratio |\n| --- | --- | --- | --- | --- |")
    for threads in map(int, args.threads.split(",")):
        runs = {lean: [], llama: []}
        for _ in range(args.rounds):
            for side in (lean, llama, llama, lean):
                runs[side].append(side(args, threads))
        for name, label in (
            ("prefill", f"prefill {args.prefill}"),
            ("decode", f"decode {args.decode}"),
            ("decode_at_depth", f"decode {args.decode} at depth {args.depth}"),
        ):
            if runs[lean][0].get(name) is None or runs[llama][0].get(name) is None:
                continue
            ours, theirs = (statistics.median(r[name] for r in runs[side]) for side in (lean, llama))
            print(f"| {threads} | {label} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |", flush=True)
        share = statistics.median(r["share"] for r in runs[lean])
        print(f"| {threads} | decode, % of the read bandwidth | {share:.0f} | - | - |", flush=True)
        if "first_token_seconds" in runs[llama][0]:
            ours, theirs = (min(r["first_token_seconds"] for r in runs[side]) for side in (lean, llama))
            label = "load to first token, s (least)"
            print(f"| {threads} | {label} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
