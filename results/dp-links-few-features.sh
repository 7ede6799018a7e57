#!/bin/sh
# FedAvg on `minesweeper`, whose nodes have seven features, with differential privacy per link, 10
# rounds of 5 epochs; run it again to continue. `python results/tables.py dp-links` prints the table.
set -e
cd "$(dirname "$0")/.."

run() { # name, further arguments
  name=$1
  shift
  ramet compare fedavg --setting minesweeper --rounds 10 --seeds "${SEEDS:-1}" --jobs 1 \
    --network hops --set epochs=5 --out "${RUNS:-sweeps}/dp-links-few-features/$name" \
    --keep "results/dp-links-few-features/$name" "$@"
}

for epsilon in 4 2 8; do
  run "epsilon-$epsilon" --dp "unit=link,epsilon=$epsilon,delta=1e-5"
done
run none
run no-links --set hops=0
