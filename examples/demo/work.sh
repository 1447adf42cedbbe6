#!/bin/sh
# A job that counts, saves when it is told to stop, and goes on from its save: what a training run would do.
steps=$1
save=${TENURE_DEMO_SAVES:-.}/$TENURE_JOB.step
step=$(cat "$save" 2>/dev/null || echo 0)
echo "job $TENURE_JOB, attempt $TENURE_ATTEMPT: begins at step $step with GPUs '$CUDA_VISIBLE_DEVICES'"
trap 'echo "$step" > "$save"; : > "$TENURE_SAVED"; echo "told to stop: saved at step $step"; exit 0' TERM
while [ "$step" -lt "$steps" ]; do
    sleep 0.5
    step=$((step + 1))
done
: > "$TENURE_DONE"
echo "done at step $step"
