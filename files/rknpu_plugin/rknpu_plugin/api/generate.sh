#!/bin/sh
# Generate the message classes and their types from the .proto files.
#
# Use grpcio-tools 1.51.1 (protoc 3.21.6) and no newer: its output loads on protobuf 3.20 to 7 and later,
# newer output refuses older runtimes.
#   python3 -m pip install grpcio-tools==1.51.1 'setuptools<70'
set -eu
cd "$(dirname "$0")/../.."
python3 -m grpc_tools.protoc -I. --python_out=. --pyi_out=. rknpu_plugin/api/*.proto
# The stubs leave out some type parameters, which a strict mypy refuses.
sed -i -e '1i # mypy: disable-error-code="type-arg,var-annotated"' rknpu_plugin/api/*_pb2.pyi
