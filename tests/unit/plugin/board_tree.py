"""A board's /dev and /sys in a directory, whose nodes are plain files so that no root is needed."""

from __future__ import annotations

from pathlib import Path

DEVICE = "fdab0000.npu"


def is_node(path: str) -> bool:
    """The check that stands for "is a character device" in such a tree."""
    found = Path(path)
    return found.is_file() and not found.is_symlink()


class BoardTree:
    """By default an RK3588 with the vendor's DRM driver: card1 and renderD129."""

    def __init__(self, root: Path, *, soc: str = "rk3588", nodes: tuple[str, ...] = ()) -> None:
        self.root = root
        self.nodes = list(nodes or ("card1", "renderD129"))
        self.write("sys/firmware/devicetree/base/compatible", f"radxa,rock-5b\0rockchip,{soc}\0")
        (root / "sys/bus/platform/drivers").mkdir(parents=True)
        (root / "dev").mkdir(exist_ok=True)
        self.bind()

    def write(self, path: str, text: str = "") -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    @property
    def _driver(self) -> Path:
        return self.root / "sys/bus/platform/drivers/RKNPU"

    def bind(self, *nodes: str) -> None:
        """The driver takes the device and the kernel makes its nodes."""
        self.nodes = list(nodes) or self.nodes
        for node in self.nodes:
            if node != "rknpu":
                (self._driver / DEVICE / "drm" / node).mkdir(parents=True)
        if "rknpu" in self.nodes:
            (self._driver / DEVICE).mkdir(parents=True)
            (self.root / "sys/class/misc/rknpu").mkdir(parents=True, exist_ok=True)
        self.make_nodes()

    def unbind(self) -> None:
        """The driver lets go of the device and the kernel removes its nodes."""
        self.remove_nodes()
        remove_tree(self._driver / DEVICE)
        if (self.root / "sys/class/misc/rknpu").exists():
            (self.root / "sys/class/misc/rknpu").rmdir()

    def path(self, node: str) -> Path:
        return self.root / ("dev/rknpu" if node == "rknpu" else f"dev/dri/{node}")

    def make_nodes(self, *nodes: str) -> None:
        for node in nodes or self.nodes:
            path = self.path(node)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def remove_nodes(self, *nodes: str) -> None:
        for node in nodes or self.nodes:
            self.path(node).unlink(missing_ok=True)

    def add_heaps(self, *names: str) -> None:
        for name in names:
            self.write(f"dev/dma_heap/{name}")


def remove_tree(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for entry in path.iterdir():
            remove_tree(entry)
        path.rmdir()
    else:
        path.unlink()
