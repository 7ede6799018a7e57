#!/bin/sh
# FedStar and FedDense on `single` with plain, fixed-point and secure sums, 50 rounds; run it again to
# continue. `python results/tables.py secure` prints the table.
set -e
cd "$(dirname "$0")/.."

run() { # name, further arguments
  name=$1
  shift
  ramet compare fedstar feddense --setting single --rounds 50 --seeds 1-3 --jobs 1 \
    --out "${RUNS:-sweeps}/secure-single/$name" --keep "results/secure-single/$name" "$@"
}

run plain
run fixed-point --merge fixed-point
run secure --secure
