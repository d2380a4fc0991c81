"""Hosts on one machine: network namespaces on a bridge, each of which can be cut off.

They need Linux, `ip` and root.
"""

import os
import shutil
import subprocess

_BRIDGE = "bnn-bridge"
_SUBNET = "10.77.0"


def available():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    tried = subprocess.run(["ip", "netns", "add", "bnn-try"], capture_output=True)
    if tried.returncode:
        return False
    _ip("netns", "del", "bnn-try")
    return True


class Hosts:
    """So many network namespaces; a context manager."""

    def __init__(self, count):
        self.count = count

    def address(self, index):
        return f"{_SUBNET}.{index + 1}"

    def command(self, index, command):
        """The command as a process of host `index`, where its name leads to its address."""
        script = f'hostname {self.address(index)} && exec "$@"'
        inside = ["unshare", "--uts", "sh", "-c", script, "sh", *command]
        return ["ip", "netns", "exec", _name(index), *inside]

    def cut_off(self, index):
        _ip("link", "set", _cable(index), "down")

    def __enter__(self):
        self._remove()
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("link", "set", _BRIDGE, "up")
        for index in range(self.count):
            name, cable = _name(index), _cable(index)
            _ip("netns", "add", name)
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", cable, "master", _BRIDGE, "up")
            _ip("-n", name, "address", "add", f"{self.address(index)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        self._remove()

    def _remove(self):
        for index in range(self.count):
            subprocess.run(["ip", "netns", "del", _name(index)], capture_output=True)
            subprocess.run(["ip", "link", "del", _cable(index)], capture_output=True)
        subprocess.run(["ip", "link", "del", _BRIDGE], capture_output=True)


def _name(index):
    return f"bnn-host-{index}"


def _cable(index):
    return f"bnn-cable-{index}"


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
