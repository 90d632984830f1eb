"""Which network sockets a process can open, and whether it reaches the address and port named."""

import errno
import json
import socket
import sys

FAMILIES = ("AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET")


def attempt(action, *arguments):
    try:
        action(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "ok"


def open_socket(family):
    socket.socket(getattr(socket, family), socket.SOCK_DGRAM).close()


def connect(host, port):
    socket.create_connection((host, int(port)), 10).close()


answers = {family: attempt(open_socket, family) for family in FAMILIES}
answers["connect"] = attempt(connect, *sys.argv[1:])
print(json.dumps(answers))
