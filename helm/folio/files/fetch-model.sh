#!/bin/sh
# Downloads MODEL_URL to MODEL_FILE, and refuses a file whose SHA-256 is not MODEL_SHA256. It runs in an init container,
# with the shell and the programs of the image that the value image.tools names.
set -eu

matches() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d ' ' -f 1)" = "$MODEL_SHA256" ]; }

# The file is there already when the init container is run again in the same pod.
if matches "$MODEL_FILE"; then
  echo "$MODEL_FILE is complete"
  exit 0
fi
part=$MODEL_FILE.part
rm -f "$part"
echo "downloading $MODEL_URL"
if command -v curl >/dev/null; then
  curl -fsSL --retry 3 -o "$part" "$MODEL_URL"
else
  wget -q -O "$part" "$MODEL_URL"
fi
if ! matches "$part"; then
  echo "the file has the SHA-256 $(sha256sum "$part" | cut -d ' ' -f 1) and $MODEL_SHA256 is expected" >&2
  rm -f "$part"
  exit 1
fi
mv "$part" "$MODEL_FILE"
echo "$MODEL_FILE is complete"
