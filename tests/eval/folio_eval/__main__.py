import sys

from folio_eval.cli import main

sys.exit(main())
