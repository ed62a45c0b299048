#!/usr/bin/env bash
# Puts the binaries of bin/ into images, FROM scratch. Usage: build.sh ROOT [TAG]; `make images` builds the
# binaries first. Needs a Docker engine, but no registry.
set -euo pipefail
root=$1 tag=${2:-dev}
cd "$root"
context=$(mktemp -d)
trap 'rm -rf "$context" "$context.log"' EXIT
docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0

# static BINARY: fails if it needs a C library; an image from scratch has none
static() {
	"${GO:-go}" version -m "bin/$1" | grep -q 'CGO_ENABLED=0' && return
	echo "bin/$1 is not static: build it with CGO_ENABLED=0, as make does" >&2
	exit 1
}

# image NAME BINARY...: an image with the binaries, the first as entry point
image() {
	local name=$1 b
	shift
	rm -rf "${context:?}"/*
	mkdir -p "$context"/root/{tmp,etc/ssl/certs} "$context"/state/{data,kube}
	for b in "$@" healthcheck; do
		static "$b"
		cp "bin/$b" "$context/root/$b"
	done
	mkdir -p "$context/root/etc/sbom"
	(cd bin && "${GO:-go}" run ../tools/images sbom --name "$name" --version "$tag" "$@" healthcheck) >"$context/root/etc/sbom/$name.cdx.json"
	if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
		cp -L /etc/ssl/certs/ca-certificates.crt "$context/root/etc/ssl/certs/"
	fi
	chmod -R u=rwX,go=rX "$context"
	chmod 1777 "$context/root/tmp" && chmod 700 "$context/state/data"
	{
		cat deploy/compose/Dockerfile
		echo "ENTRYPOINT [\"/$1\"]"
	} >"$context/Dockerfile"
	docker build -q -t "millwright/$name:$tag" "$context" >"$context.log" 2>&1 || {
		cat "$context.log" >&2
		exit 1
	}
	local size
	size=$(docker image inspect -f '{{.Size}}' "millwright/$name:$tag")
	echo "image millwright/$name:$tag, $((size / 1000000)) MB"
}

image millwright millwright millctl
image tools demo millctl crash
image ec2sim ec2sim
image localcluster localcluster
image etcd etcd
image nats nats-server
image prometheus prometheus
