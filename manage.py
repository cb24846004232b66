#!/usr/bin/env python
"""Django's command line for Vigil."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import OperationalError

UNEXPECTED, USAGE = 1, 2


def main() -> None:
    """Run a command. Settings that cannot work end it with one sentence."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        print(error, file=sys.stderr)
        sys.exit(USAGE)
    except OperationalError as error:
        reason = " ".join(str(error).split())
        print(
            f"The database does not answer; check DATABASE_URL and that it is running. It said: {reason}",
            file=sys.stderr,
        )
        sys.exit(UNEXPECTED)


if __name__ == "__main__":
    main()
