#!/bin/sh
# FedAvg and Local on `cora` with differential privacy per link, 30 rounds of 5 epochs, beside the
# same network without noise or links, and a GCN; run it again to continue. `python
# results/tables.py dp-links` prints the table.
set -e
cd "$(dirname "$0")/.."

run() { # name, seeds, methods, further arguments
  name=$1 seeds=$2 methods=$3
  shift 3
  ramet compare $methods --setting cora --rounds 30 --seeds "$seeds" --jobs 1 --set epochs=5 \
    --out "${RUNS:-sweeps}/dp-links/$name" --keep "results/dp-links/$name" "$@"
}

all() { # seeds, methods
  run none "$1" "$2" --network hops
  run no-links "$1" "$2" --network hops --set hops=0
  run gcn "$1" "$2" --network gcn
  for epsilon in 4 8 2; do
    run "epsilon-$epsilon" "$1" "$2" --network hops --dp "unit=link,epsilon=$epsilon,delta=1e-5"
  done
}

all 1 fedavg
all 1 "fedavg local"
all 1-3 "fedavg local"
