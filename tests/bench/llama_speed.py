"""llama.cpp's speed on one file, measured as its llama-bench does: `llama_decode` and nothing else.

    llama_speed.py FILE THREADS PREFILL DECODE DEPTH   prints a line of JSON
"""

import ctypes
import json
import sys
import time

import llama_cpp as ll


def main(path, threads, prefill, decode, depth):
    ll.llama_log_set(silent, None)
    ll.llama_backend_init()
    start = time.perf_counter()
    model_params = ll.llama_model_default_params()
    model_params.n_gpu_layers = 0
    model = ll.llama_model_load_from_file(path.encode(), model_params)
    if not model:
        sys.exit(f"{path}: llama.cpp does not load it")
    load = time.perf_counter() - start
    params = ll.llama_context_default_params()
    params.n_ctx = max(prefill, depth) + decode + 8
    params.n_batch = 2048
    params.n_ubatch = 512
    params.n_threads = params.n_threads_batch = threads
    context = ll.llama_init_from_model(model, params)
    if not context:
        sys.exit(f"{path}: llama.cpp makes no context of {params.n_ctx} tokens")
    vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(model))

    def run(first, count):
        """Decodes `count` tokens as one batch; the same ids as in `lean bench`."""
        ids = (ll.llama_token * count)(*((i * 7919 + 13) % vocab for i in range(first, first + count)))
        if ll.llama_decode(context, ll.llama_batch_get_one(ids, count)) != 0:
            sys.exit("llama_decode failed")
        ll.llama_synchronize(context)

    def timed(count, each):
        start = time.perf_counter()
        for first in range(0, count, each):
            run(first, min(each, count - first))
        return count / (time.perf_counter() - start)

    def clear():
        ll.llama_memory_clear(ll.llama_get_memory(context), True)

    run(0, 8)
    first = time.perf_counter() - start
    clear()
    run(0, 2)
    run(2, 1)
    clear()
    speeds = {"load_seconds": load, "first_token_seconds": first, "prefill": timed(prefill, params.n_batch), "decode": timed(decode, 1)}
    if depth:
        clear()
        timed(depth, params.n_batch)
        speeds["decode_at_depth"] = timed(decode, 1)
    print(json.dumps(speeds))


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def silent(_level, _text, _data):
    pass


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:6]))
