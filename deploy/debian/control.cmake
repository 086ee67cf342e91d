# The control fields of each package. CPack adds version, architecture, size and the shared libraries' packages.
set(CPACK_DEBIAN_FOLIO-MANAGER_PACKAGE_SECTION net)
set(CPACK_DEBIAN_FOLIO-MANAGER_PACKAGE_DEPENDS "${daemon_depends}")
set(CPACK_DEBIAN_FOLIO-MANAGER_PACKAGE_RECOMMENDS "folioctl")
set(CPACK_DEBIAN_FOLIO-MANAGER_PACKAGE_SUGGESTS "folio-worker")
set(CPACK_DEBIAN_FOLIO-MANAGER_DESCRIPTION
"KV-cache service for large language models: manager
Folio keeps the KV cache of large language models outside the process that
runs the model. Every sequence is held to a hard memory budget, an eviction
policy of the client's choice decides which tokens stay, and a sequence
survives the death of its worker.
.
This package has the daemon that owns the pages of the cache on a node, with
its systemd units and sockets.")

set(worker_description
"Folio keeps the KV cache of large language models outside the process that
runs the model. Every sequence is held to a hard memory budget, an eviction
policy of the client's choice decides which tokens stay, and a sequence
survives the death of its worker.
.")
set(CPACK_DEBIAN_FOLIO-WORKER_PACKAGE_SECTION net)
set(CPACK_DEBIAN_FOLIO-WORKER_PACKAGE_DEPENDS "${daemon_depends}")
set(CPACK_DEBIAN_FOLIO-WORKER_PACKAGE_RECOMMENDS "folio-manager, folioctl")
set(CPACK_DEBIAN_FOLIO-WORKER_DESCRIPTION
"KV-cache service for large language models: worker for CPUs
${worker_description}
This package has the daemon that runs a model on a CPU and serves clients,
with its systemd units. The model is not part of it.")

set(CPACK_DEBIAN_FOLIO-WORKER-CUDA_PACKAGE_SECTION net)
set(CPACK_DEBIAN_FOLIO-WORKER-CUDA_PACKAGE_DEPENDS "${daemon_depends}${cuda_depends}")
set(CPACK_DEBIAN_FOLIO-WORKER-CUDA_PACKAGE_RECOMMENDS "folio-manager, folioctl")
set(CPACK_DEBIAN_FOLIO-WORKER-CUDA_PACKAGE_CONFLICTS "folio-worker")
set(CPACK_DEBIAN_FOLIO-WORKER-CUDA_PACKAGE_REPLACES "folio-worker")
set(CPACK_DEBIAN_FOLIO-WORKER-CUDA_DESCRIPTION
"KV-cache service for large language models: worker for NVIDIA GPUs
${worker_description}
This package has the daemon that runs a model on NVIDIA GPUs or a CPU and
serves clients, with its systemd units. The model is not part of it.")

set(CPACK_DEBIAN_FOLIO-GATEWAY_PACKAGE_SECTION net)
set(CPACK_DEBIAN_FOLIO-GATEWAY_PACKAGE_DEPENDS "${daemon_depends}")
set(CPACK_DEBIAN_FOLIO-GATEWAY_PACKAGE_SUGGESTS "folio-worker")
set(CPACK_DEBIAN_FOLIO-GATEWAY_DESCRIPTION
"KV-cache service for large language models: HTTP gateway
${worker_description}
This package has the daemon that serves the HTTP API of OpenAI in front of
workers, with its systemd unit, so that tools made for that API can be used.")

set(CPACK_DEBIAN_FOLIOCTL_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_FOLIOCTL_PACKAGE_SUGGESTS "folio-worker")
set(CPACK_DEBIAN_FOLIOCTL_DESCRIPTION
"KV-cache service for large language models: command line
Folio keeps the KV cache of large language models outside the process that
runs the model, in pages under a hard memory budget.
.
This package has the program that generates text at a worker, and shows and
compares what the cache holds under each eviction policy.")

set(CPACK_DEBIAN_LIBFOLIO-CLIENT-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBFOLIO-CLIENT-DEV_PACKAGE_DEPENDS
    "libgrpc++-dev, libprotobuf-dev, libabsl-dev, protobuf-compiler-grpc")
set(CPACK_DEBIAN_LIBFOLIO-CLIENT-DEV_PACKAGE_SUGGESTS "cmake")
set(CPACK_DEBIAN_LIBFOLIO-CLIENT-DEV_DESCRIPTION
"KV-cache service for large language models: C++ client library
Folio keeps the KV cache of large language models outside the process that
runs the model, in pages under a hard memory budget.
.
This package has the static C++ client library with its headers, a CMake
package, and the protocol for clients in other languages.")
