"""The README's example runs as it stands there."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

HOST = pathlib.Path(__file__).resolve().parents[1]
SMOL = pathlib.Path(os.environ.get("LEAN_MODEL_DIR") or HOST.parents[1] / ".cache" / "models")
SMOL = SMOL / "SmolLM2-135M-Instruct.Q4_1.gguf"
README = (HOST / "README.md").read_text("utf-8")


class Readme(unittest.TestCase):
    def test_the_examples(self):
        first, second = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
        self.assertLessEqual(len([line for line in first.splitlines() if line.strip()]), 12, "a ten-line example")
        env = {**os.environ, "MODEL": "echo", "PYTHONPATH": str(HOST)}
        script = first + "".join(f"    {line}\n" for line in second.splitlines())
        run = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(run.stdout, "Ada\nTell a story.")

    @unittest.skipUnless(SMOL.exists(), f"SKIPPED: there is no {SMOL}")
    def test_the_repositorys_example(self):
        (example,) = re.findall(r"```python\n(.*?)```", (HOST.parents[1] / "README.md").read_text("utf-8"), re.DOTALL)
        script = example.replace('"smollm2.gguf"', repr(str(SMOL)))
        env = {**os.environ, "PYTHONPATH": str(HOST)}
        run = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=300)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_what_it_names_exists(self):
        import lean_engine as lean

        for name in set(re.findall(r"\blean\.([a-zA-Z]\w*)", README)):
            self.assertTrue(hasattr(lean, name), f"lean.{name}")
        for owner, name in re.findall(r"\b(model|engine|stream|checkpoint)\.(\w+)\(", README):
            self.assertTrue(hasattr(getattr(lean, owner.capitalize()), name), f"{owner}.{name}")


if __name__ == "__main__":
    unittest.main()
