"""What is compiled: every `.pyx`, and every `.py` that has a `.pxd` of the same name beside it.

The rule is `tools.built_tree.compiled_modules`, which also knows what each module is compiled from,
so that a change of a header compiles again whatever includes it.

A source may ask for more options of the compiler by a line `# distutils: extra_compile_args = …`.
`KPROD_CFLAGS` replaces the compiler's usual options, for builds with sanitizers; otherwise nothing
is kept for debuggers, which would be four fifths of a wheel.
"""

import os
import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup

TREE = Path(__file__).parent
# By its path: any distribution may have installed a package that is called `tools`.
compiled_modules = runpy.run_path(str(TREE / "tools" / "built_tree.py"))["compiled_modules"]

OPTIONS = os.environ.get("KPROD_CFLAGS", "-O3 -g0 -Wall").split()
# Apple's linker has no such option, and keeps little.
STRIPS = "KPROD_CFLAGS" not in os.environ and sys.platform == "linux"

setup(
    ext_modules=[
        Extension(
            module.name,
            [module.inputs[0]],
            depends=list(module.inputs[1:]),
            extra_compile_args=[*OPTIONS, *module.compiler_options],
            extra_link_args=["-Wl,--strip-all"] if STRIPS else [],
        )
        for module in compiled_modules(TREE)
    ]
)
