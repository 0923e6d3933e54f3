"""llama.cpp's speed on one file by the timings of its own server, from the prebuilt wheel `xllamacpp`.

    llama_wheel.py FILE THREADS PREFILL DECODE DEPTH   prints a line of JSON, as llama_speed.py does

The server decodes the same ids as `lean bench` and then chooses greedily; its timings include the sampler, which
costs it some hundredths of a step.
"""

import json
import sys
import time

import xllamacpp


def main(path, threads, prefill, decode, depth):
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.n_ctx = max(prefill, depth) + decode + 8
    params.n_batch, params.n_ubatch, params.n_parallel = 2048, 512, 1
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.verbosity = -1
    if hasattr(params, "warmup"):
        params.warmup = False
    start = time.perf_counter()
    server = xllamacpp.Server(params)
    speeds = {"load_seconds": time.perf_counter() - start}
    timings(server, 8, 1)
    speeds["first_token_seconds"] = time.perf_counter() - start
    timings(server, 8, 2)
    speeds["prefill"], speeds["decode"] = timings(server, prefill, decode)
    if depth:
        speeds["decode_at_depth"] = timings(server, depth, decode)[1]
    print(json.dumps(speeds))


def timings(server, prompt, decode):
    """Tokens a second of a prompt and of what follows it."""
    request = {
        "prompt": [(i * 7919 + 13) % 40000 for i in range(prompt)],
        "n_predict": decode,
        "temperature": 0.0,
        "samplers": ["temperature"],
        "ignore_eos": True,
        "cache_prompt": False,
    }
    answer = server.handle_completions(request)
    answer = json.loads(answer) if isinstance(answer, (str, bytes)) else answer
    told = answer["timings"]
    if (told["prompt_n"], told["predicted_n"]) != (prompt, decode):
        sys.exit(f"{prompt} + {decode} tokens wanted, the server worked on {told}")
    return told["prompt_per_second"], told["predicted_per_second"]


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:6]))
