#!/bin/sh
# FedAvg on Photo by epochs, optimiser at the site and at the server, and the model that is tested;
# run it again to continue. `make pages` writes the table of docs/board.md.
set -e
cd "$(dirname "$0")/.."

set --
for epochs in 1 3; do
  for site in algorithm=adam,lr=0.01 algorithm=sgd,lr=0.1 algorithm=sgd,lr=1; do
    for server in fedavg fedadam; do
      for model in merged trained; do
        set -- "$@" "$server,epochs=$epochs,$site,site_model=$model"
      done
    done
  done
done
ramet compare "$@" --setting photo --network gcn --rounds 100 --seeds 1 --splits 5 --jobs 1 \
  --set clients=10 --set partition=metis --set partition_seed=1 --set train=0.2 \
  --out "${RUNS:-sweeps}/photo" --keep results/photo
