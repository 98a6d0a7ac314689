"""cc_library and cc_binary whose files begin with library_headers.h.

tools/build_rules/prelude_bazel gives them to every BUILD file, under the names of
Bazel's own rules, whose arguments they take.
"""

_HEADERS = "//third_party/precompiled:library_headers"
_INCLUDE = [
    "-include",
    "third_party/precompiled/library_headers.h",
    # GCC 12 warns of std::string's own moves where it reads them precompiled, as it
    # does not where it reads the system's header. Clang, which reads nothing
    # precompiled, does not know the last three.
    "-Wno-unknown-warning-option",
    "-Wno-array-bounds",
    "-Wno-stringop-overflow",
    "-Wno-stringop-overread",
    "-Wno-restrict",
]

def _with_headers(rule, arguments):
    if not arguments.get("srcs"):
        rule(**arguments)
        return
    rule(**dict(
        arguments,
        copts = arguments.get("copts", []) + _INCLUDE,
        deps = arguments.get("deps", []) + [_HEADERS],
    ))

def cc_library(**arguments):
    _with_headers(native.cc_library, arguments)

def cc_binary(**arguments):
    _with_headers(native.cc_binary, arguments)

def cc_library_without_headers(**arguments):
    """For files that cannot be compiled beside Abseil's headers."""
    native.cc_library(**arguments)
