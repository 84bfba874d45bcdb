#!/usr/bin/env bash
# The earlier name of fetch-brain-mri-orientation.sh.
exec "$(dirname -- "${BASH_SOURCE[0]}")/fetch-brain-mri-orientation.sh" "$@"
