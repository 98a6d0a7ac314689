"""castor/_shim.pyi, by which type checkers know the shim, beside the shim."""

from __future__ import annotations

import ast
import unittest
from pathlib import Path

from castor import _library

STUB = Path(__file__).resolve().parents[1] / "castor" / "_shim.pyi"


class ShimStub(unittest.TestCase):
    def test_all_that_it_declares_is_there(self) -> None:
        declared = 0
        for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                self.assertTrue(callable(getattr(_library.shim, node.name)))
                declared += 1
            if not isinstance(node, ast.ClassDef):
                continue
            kind = getattr(_library.shim, node.name)
            for member in node.body:
                if not isinstance(member, ast.FunctionDef):
                    continue
                is_property = bool(member.decorator_list)
                found = getattr(kind, member.name)
                self.assertEqual(isinstance(found, property), is_property, member.name)
                declared += 1
        self.assertGreater(declared, 50)


if __name__ == "__main__":
    unittest.main()
