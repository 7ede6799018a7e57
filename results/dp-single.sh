#!/bin/sh
# FedDense and Local on `single` with differential privacy per graph, 30 rounds; run it again to
# continue. `python results/tables.py dp` prints the table.
set -e
cd "$(dirname "$0")/.."

run() { # name, seeds, further arguments
  name=$1 seeds=$2
  shift 2
  ramet compare feddense local --setting single --rounds 30 --seeds "$seeds" --jobs 1 \
    --out "${RUNS:-sweeps}/dp-single/$name" --keep "results/dp-single/$name" "$@"
}

private() { run "epsilon-$1" "$2" --dp "unit=graph,epsilon=$1,delta=1e-5"; }

private 4 1
run none 1
private 8 1
private 2 1
private 4 1-3
run none 1-3
