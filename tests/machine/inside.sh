# What scripts/machine.sh runs in its machine, as root: what the doctor says there, and the tests of limits, as root and
# as an ordinary user who was lent control groups.
set -u
export PYTHONDONTWRITEBYTECODE=1
readonly LIMITS="tests/test_limits.py tests/test_watched.py tests/test_ranks_apart.py tests/test_ordinary_user.py"
readonly PYTEST="$PWD/.venv/bin/python -m pytest -q -p no:cacheprovider"
status=0
$PYTEST -m machine tests/test_machine.py || status=1
$PYTEST $LIMITS || status=1
runuser --login student --command \
    "cd $PWD && PYTHONDONTWRITEBYTECODE=1 systemd-run --quiet --user --scope -p Delegate=yes $PYTEST $LIMITS" || status=1
exit $status
