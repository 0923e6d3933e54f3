"""A wheel that carries the bridge, installed where nothing else is."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import lean_engine as lean

HOST = pathlib.Path(__file__).resolve().parents[1]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


@unittest.skipUnless(sys.platform == "linux", "SKIPPED: make_wheel.py is tested on Linux only")
class Wheel(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lean-wheel-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_in(self, *command, **options):
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **options)

    def test_it_installs_and_runs_by_itself(self):
        if self.run_in(*PIP, "--version").returncode:
            self.skipTest("SKIPPED: pip is missing")
        bridge = self.folder / "lean-bridge"
        # A development build is mostly debug information.
        if not shutil.which("strip") or self.run_in("strip", "-o", str(bridge), lean.find_bridge()).returncode:
            shutil.copy(lean.find_bridge(), bridge)
        made = self.run_in(sys.executable, str(HOST / "make_wheel.py"), "--bridge", str(bridge), "--out", "dist")
        if made.returncode and "setuptools" in made.stderr:
            self.skipTest("SKIPPED: setuptools is not to be had here")
        self.assertEqual(made.returncode, 0, made.stderr)
        wheel = self.folder / made.stdout.strip()
        self.assertRegex(wheel.name, r"^lean_engine-\d.*-py3-none-manylinux_2_\d+_\w+\.whl$")
        names = zipfile.ZipFile(wheel).namelist()
        self.assertIn("lean_engine/py.typed", names)
        self.assertFalse([name for name in names if name.startswith("tests")])

        site = self.folder / "site"
        installed = self.run_in(*PIP, "install", "--quiet", "--no-deps", "--no-index", "--target", str(site), str(wheel))
        # An older system than the one that the bridge was built on would refuse; this is the same one.
        self.assertEqual(installed.returncode, 0, installed.stderr)
        env = {k: v for k, v in os.environ.items() if k != "LEAN_BRIDGE"}
        env["PYTHONPATH"] = str(site)
        script = (
            "import lean_engine as lean\n"
            "print(lean.find_bridge())\n"
            "with lean.spawn() as engine: print(engine.load('echo').generate(str, 'it runs'))"
        )
        run = self.run_in(sys.executable, "-c", script, env=env, timeout=60)
        self.assertEqual(run.stdout, f"{site / 'lean_engine' / 'bin' / 'lean-bridge'}\nit runs\n", run.stderr)


if __name__ == "__main__":
    unittest.main()
