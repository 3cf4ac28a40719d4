#!/bin/sh
# May this checkpoint ship? Exit code 0: yes. 1: a gate failed or could not be evaluated. 4: something
# that is named here is wrong. 16: an engine did not start.
set -eu
: "${CANDIDATE:?name the model under test: a folder, ORG/MODEL, http://HOST:PORT/v1#MODEL or replay:FILE}"
JUDGE=${JUDGE:-openai/gpt-oss-20b}
# An endpoint or recorded answers need no engine: REFUSAL_CHECKS=refusal-checks
REFUSAL_CHECKS=${REFUSAL_CHECKS:-refusal-checks[vllm]}
# Outside the job's folder, which CI cleans; weights and the store outlive the job, too.
VENV=${VENV:-$HOME/.cache/refusal-checks/venv}
STORE=${STORE:-$HOME/.cache/refusal-checks/store.sqlite}
if [ ! -x "$VENV/bin/refusal-checks" ]; then
    python3 -m venv "$VENV"
    "$VENV/bin/pip" install "$REFUSAL_CHECKS"
fi
"$VENV/bin/refusal-checks" doctor --candidate "$CANDIDATE" --judge "$JUDGE"
exec "$VENV/bin/refusal-checks" gate "$CANDIDATE" --judge="$JUDGE" --store="$STORE" \
    --junitxml=report.xml --refusal-html=report.html "$@"
