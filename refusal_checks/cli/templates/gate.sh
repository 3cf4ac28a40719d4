#!/bin/sh
# May this checkpoint ship? Exit code 0: yes. 1: a gate failed or could not be evaluated. 4: what is
# named here is wrong, or not there. 7: all gates passed, but the yes rests on something that was not
# shown. 16: an engine did not start. Arguments are further options of the gate.
set -eu
: "${CANDIDATE:?name the model under test: a folder, ORG/MODEL, http://HOST:PORT/v1#MODEL or replay:FILE}"
# JUDGE=MODEL is asked in place of the run file's judge.
JUDGE=${JUDGE:-}
# The version is pinned here: once this line changes, the next job installs what it says.
REFUSAL_CHECKS=${REFUSAL_CHECKS:-refusal-checks @ @SOURCE@}
# All that it needs, with versions and digests, as a file or URL. Where candidate and judge are servers or
# recordings, LOCK=@LOCKS@/endpoint.txt leaves the engine out. LOCK= takes what the index has.
LOCK=${LOCK-@LOCKS@/gpu.txt}
# Outside the job's folder, which CI cleans: environment and stored answers outlive the job.
CACHE=${CACHE:-${HOME:?name a folder for environment and answers in CACHE}/.cache/refusal-checks}
STORE=${STORE:-$CACHE/store.sqlite}
[ -n "${HF_HOME:-}" ] || unset HF_HOME
# Where CI keeps the folder of the last job, its results would pass for those of this one.
rm -rf report.xml report.html gate.log .refusal-checks/runs
echo "The refusal gate ended before it could report: see the log of its job." > comment.md

# One job at a time on a machine: two would share its GPU, its environment and its store.
mkdir -p "$CACHE"
exec 9> "$CACHE/lock"
if command -v flock > /dev/null && ! flock -n 9; then
    echo "another gate runs on this machine; this one waits for it"
    flock 9
fi

# VENV=DIR names an environment of your own, which is used as it is.
if [ -z "${VENV:-}" ]; then
    VENV=$CACHE/venv
    wanted="$REFUSAL_CHECKS $LOCK"
    if [ "$(cat "$VENV/installed" 2> /dev/null)" != "$wanted" ]; then
        for found in ${PYTHON:-python3.12 python3.11 python3.13 python3} ''; do
            "$found" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && break
        done
        if [ -z "$found" ]; then
            echo "name a Python from 3.11 on that has venv: PYTHON=/usr/bin/python3.12" >&2
            exit 4
        fi
        echo "installing $REFUSAL_CHECKS into $VENV with $found"
        "$found" -m venv --clear "$VENV"
        if [ -n "$LOCK" ]; then
            "$VENV/bin/pip" install --require-hashes --no-deps --requirement "$LOCK"
            "$VENV/bin/pip" install --no-build-isolation --no-deps "$REFUSAL_CHECKS"
        else
            "$VENV/bin/pip" install "$REFUSAL_CHECKS"
        fi
        echo "$wanted" > "$VENV/installed"
    fi
fi

checks=${VENV:?}/bin/refusal-checks
# What doctor finds is wrong with the machine or the input. It says nothing about the model.
REFUSAL_CHECKS_REDACT=1 "$checks" doctor --candidate "$CANDIDATE" ${JUDGE:+--judge "$JUDGE"} --store "$STORE" || exit 4
# Whoever may see the pipeline reads its log, so the run's own output goes into a file.
status=0
env -u GITHUB_ACTIONS -u GITHUB_STEP_SUMMARY \
    "$checks" gate "$CANDIDATE" ${JUDGE:+--judge="$JUDGE"} --store="$STORE" --html=report.html "$@" > gate.log 2>&1 ||
    status=$?
case $status in
    0 | 1 | 7) # Published without prompts and answers.
        "$checks" report markdown last --redact --out comment.md
        "$checks" report junit last --redact --out report.xml
        cat comment.md
        [ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat comment.md >> "$GITHUB_STEP_SUMMARY"
        ;;
    4 | 16) cat gate.log ;; # Nothing was decided.
    *) echo "the gate ended with $status: see gate.log" ;;
esac
exit "$status"
