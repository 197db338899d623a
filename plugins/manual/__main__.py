"""`python -m chaos.plugins.manual FOLDER`: write the generated pages of the documentation below FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from chaos.plugins import manual

WRONG_INPUT = 2

if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
    print("usage: python -m chaos.plugins.manual FOLDER  (the folder of the documentation: docs)", file=sys.stderr)
    sys.exit(WRONG_INPUT)
for written in manual.write(Path(sys.argv[1])):
    print(written)
