"""YAML as people mean it: a mapping has each key once, and numbers are decimal."""

from __future__ import annotations

from typing import Any

from tileflow.errors import SpecError

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def read_yaml(text: str) -> object:
    """Plain data of a text in YAML. Raises SpecError where a mapping has a key twice, of which YAML keeps the last, and
    for a number that it reads otherwise than people; yaml.YAMLError for what is none."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value in seen:
                        raise SpecError(
                            "a mapping must have each of its keys once",
                            got=f"{key.value} again",
                            where=f"line {key.start_mark.line + 1}",
                            hint="remove one of the two",
                        )
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
            if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and node.style is None:
                _require_plain(node.value, f"line {node.start_mark.line + 1}")
            return super().construct_object(node, deep)

    return yaml.load(text, Loader)


def _require_plain(text: str, where: str) -> None:
    """Raise SpecError for a number that YAML 1.1 reads otherwise than people: 010 is 8 there, and 1:30 is 90."""
    digits = text.lstrip("+-").replace("_", "")
    if ":" in digits or (len(digits) > 1 and digits[0] == "0" and digits.isdigit()):
        raise SpecError(
            "a number must be written in decimal digits",
            got=f"{text}, which YAML reads to the base of {60 if ':' in digits else 8}",
            where=where,
            hint="write the number that is meant, or quote it where it is text",
        )
