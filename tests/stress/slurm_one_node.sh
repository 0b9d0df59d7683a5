#!/bin/sh
# A real Slurm of one node, as root in a container or a virtual machine of Debian, on which a sweep is trained by two
# jobs (WORKERS); one of them is queued again in the middle, and begins two minutes later, as Slurm has it. In the end
# the runs have to be those of a sweep without Slurm.
#
#     apt-get install -y --no-install-recommends slurmctld slurmd munge slurm-client
#     sh tests/stress/slurm_one_node.sh [DIR]
#
# Nothing is left but DIR: munge has a key and a socket of its own there, Slurm its configuration, state and logs.
set -eu
DIR=$(realpath -m "${1:-$(mktemp -d)}")
SUPPLE=${SUPPLE:-.venv/bin/supple}
WORKERS=${WORKERS:-2}
mkdir -p "$DIR/state" "$DIR/spool" "$DIR/munge"
chmod 755 "$DIR" && chmod 700 "$DIR/munge"
dd if=/dev/urandom of="$DIR/munge/key" bs=128 count=1 2>/dev/null && chmod 600 "$DIR/munge/key"

cat > "$DIR/slurm.conf" <<END
ClusterName=one
SlurmctldHost=$(hostname)
SlurmUser=root
AuthInfo=socket=$DIR/munge/socket
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool
SlurmctldPidFile=$DIR/slurmctld.pid
SlurmdPidFile=$DIR/slurmd.pid
SlurmctldLogFile=$DIR/slurmctld.log
SlurmdLogFile=$DIR/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
JobRequeue=1
NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=$(nproc)
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF="$DIR/slurm.conf"

munged --foreground --force --key-file="$DIR/munge/key" --socket="$DIR/munge/socket" --pid-file="$DIR/munge/pid" \
    --log-file="$DIR/munge/log" --seed-file="$DIR/munge/seed" 2> /dev/null & munged=$!
sleep 1
slurmctld -D 2> /dev/null & controller=$!
slurmd -D 2> /dev/null & node=$!
trap 'scancel --name=supple || true; sleep 1; kill $controller $node $munged; wait' EXIT
until sinfo --noheader --format=%T | grep -q idle; do sleep 1; done
sinfo

cat > "$DIR/sweep.toml" <<'END'
[lin]
kind = "linear"
settings = { tasks = "semantic,reversal", updates_per_task = 10_000, checkpoint_every = 1000, measure_every = 500 }
arms = ["none", "snp(lam=0.5)"]
fork_at_task = 1
seeds = "0-3"
END

"$SUPPLE" sweep "$DIR/sweep.toml" --out "$DIR/without" --jobs 2 > "$DIR/without.log"
begun=$(date +%s)
"$SUPPLE" sweep "$DIR/sweep.toml" --out "$DIR/out" --on slurm --workers "$WORKERS" \
    --with timeout_min=60 slurm_partition=all cpus_per_task=1 > "$DIR/out.log" 2>&1 & sweep=$!
until find "$DIR/out" -path '*checkpoints/0*' -name state.json 2>/dev/null | grep -q .; do sleep 0.2; done
job=$(squeue --noheader --array --states=RUNNING --format=%i | head -1)
echo "job $job is queued again, in the middle of:"
squeue
scontrol requeue "$job"
wait $sweep
tail -2 "$DIR/out.log"
echo "seconds: $(($(date +%s) - begun)); jobs that were queued again: $(grep -c 'Requeuing JobId' "$DIR/slurmctld.log")"

# the tensors of both, and the logs without their clocks
sums() { (cd "$1" && find . -name '*.safetensors' -exec sha256sum {} + | sort -k 2; find . -path '*seed-*' -name '*.jsonl' \
    | sort | xargs sed -E 's/"(time|seconds)": [0-9.e-]+//g'); }
sums "$DIR/without" > "$DIR/without.sums"
sums "$DIR/out" > "$DIR/out.sums"
cmp "$DIR/without.sums" "$DIR/out.sums"
echo "the same bytes: $(grep -c safetensors "$DIR/out.sums") files of tensors, and all logs"
