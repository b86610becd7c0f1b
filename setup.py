"""Compiled modules: every `.pyx`, and every `.py` that has a `.pxd` of the same name beside it.

The rule is `tools.built_tree.compiled_modules`, which also knows what each module is compiled from,
so that a change of a header compiles again whatever includes it.

A source may ask for more options of the compiler by a line `# distutils: extra_compile_args = …`;
`-Os`, a third less, where code runs once for a topic, a connection, a request, a batch's sequence
or an old format, and beside OpenSSL, which takes longer.
`KPROD_CFLAGS` replaces the compiler's usual options, for builds with sanitizers; otherwise nothing
is kept for debuggers, which would be four fifths of a wheel. With `KPROD_COMPILES_LATER` the
package is installed without its compiled modules, which `make setup` adds: an installation from the
tree compiles in a directory of its own, and `build_ext` would compile everything a second time.

A wheel carries its bill of materials (`tools.bill_of_materials`), and the addresses of the
repository that it is released from, which the release names in `KPROD_REPOSITORY`.
"""

import os
import runpy
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

TREE = Path(__file__).parent
# By its path: any distribution may have installed a package that is called `tools`.
compiled_modules = runpy.run_path(str(TREE / "tools" / "built_tree.py"))["compiled_modules"]
bill = runpy.run_path(str(TREE / "tools" / "bill_of_materials.py"))

OPTIONS = os.environ.get("KPROD_CFLAGS", "-O3 -g0 -Wall").split()
# Without symbols, and code and constants in the same pages: pages of their own would be 4 KiB of
# padding each in a hundred files. Apple's linker has neither option, and keeps little.
IS_SMALL = "KPROD_CFLAGS" not in os.environ and sys.platform == "linux"
SMALL = ["-Wl,--strip-all", "-Wl,-z,noseparate-code"]

REPOSITORY = os.environ.get("KPROD_REPOSITORY", "")
ADDRESSES = {
    "Documentation": "/tree/main/docs",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
    "Security": "/security/policy",
}


class BuildInProcesses(build_ext):
    """Translates to C in processes: setuptools' threads wait for the GIL."""

    def build_extensions(self) -> None:
        """Translate all modules that are out of date, then compile them."""
        if sys.platform == "linux":  # elsewhere each process would run this file again
            cythonize(
                self.extensions,
                nthreads=self.parallel or 0,
                force=self.force,
                quiet=self.verbose == 0,
            )
        super().build_extensions()


class WheelWithBill(bdist_wheel):
    """Adds the bill of materials to a wheel's metadata."""

    def write_wheelfile(self, wheelfile_base: str, *args: str, **options: str) -> None:
        """Write it beside the file `WHEEL`."""
        super().write_wheelfile(wheelfile_base, *args, **options)
        version = self.distribution.get_version()
        target = Path(wheelfile_base, "sboms", bill["FILE_NAME"])
        target.parent.mkdir(exist_ok=True)
        target.write_text(bill["bill_of_materials"](TREE, version), encoding="utf-8")


def addresses() -> dict[str, str]:
    """Return the project's addresses below its repository's; none where that is not named."""
    if not REPOSITORY:
        return {}
    return {
        "Source": REPOSITORY,
        **{name: REPOSITORY + path for name, path in ADDRESSES.items()},
    }


setup(
    cmdclass={"bdist_wheel": WheelWithBill, "build_ext": BuildInProcesses},
    project_urls=addresses(),
    ext_modules=[
        Extension(
            module.name,
            [module.inputs[0]],
            depends=list(module.inputs[1:]),
            extra_compile_args=[*OPTIONS, *module.compiler_options],
            extra_link_args=SMALL if IS_SMALL else [],
        )
        for module in compiled_modules(TREE)
        if "KPROD_COMPILES_LATER" not in os.environ
    ],
)
