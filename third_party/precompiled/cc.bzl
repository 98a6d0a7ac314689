"""cc_library, cc_binary and cc_test whose files begin with headers that were parsed
once (BUILD), compiled with the options below.

tools/build_rules/prelude_bazel gives them to every BUILD file, under the names of
Bazel's own rules, whose arguments they take. A target with an option that changes
the language (-fno-rtti) says `precompiled = False`. A library or a test whose files
are not of the kind that its folder and their names tell says `kind`, one of OPTIONS.
"""

load(":objects.bzl", "test_objects")

_UNOPTIMISED = [
    "-O0",
    # _FORTIFY_SOURCE wants optimisation.
    "-U_FORTIFY_SOURCE",
]

# What only makes compiling and testing faster and changes no result. For each kind
# of file: what is compiled differently by default, for AddressSanitizer, for
# ThreadSanitizer, and, besides these, for x86-64. A precompiled header serves files
# of one kind, because compilers take it only where options agree.
#
# AddressSanitizer's checks make an optimised compilation twice as long. Tests need
# not be watched for what is undefined, nor kernels where others are tested. (All or
# none have AddressSanitizer: Abseil's containers differ.) What kernels share they
# share through the thread pool, which ThreadSanitizer watches.
_KERNEL = {
    "asan": ["-O1", "-fno-sanitize=undefined"],
    "tsan": ["-O2", "-fno-sanitize=all"],
}
OPTIONS = {
    "library": {"asan": _UNOPTIMISED},
    # Tests of runs plan again and again, which is most of what they compute.
    "planner": {"asan": ["-O1"]},
    "kernel": _KERNEL,
    # The GPU's programs, compiled for the host: there a fused multiply-add is a call
    # where the processor may lack the instruction, and these programs' loops take
    # most of the time of many tests. The bits are the same. emulated_device.cc asks
    # whether the processor has what is asked for here. ThreadSanitizer watches them:
    # their blocks run on threads that nothing but the program's own turns orders.
    "emulated_program": dict(_KERNEL, tsan = ["-O2"], x86_64 = ["-mavx2", "-mfma"]),
    # Tests, and what only they use, are compiled more often than they run ...
    "test": {
        "default": _UNOPTIMISED,
        "asan": _UNOPTIMISED + ["-fno-sanitize=undefined"],
        "tsan": _UNOPTIMISED,
    },
    # ... but for those that hold oracles of arithmetic.
    "operator_test": {"asan": _UNOPTIMISED + ["-fno-sanitize=undefined"]},
    "kernel_test": _KERNEL,
}

# Kinds of which many files read JSON. A target does if it names one of these.
KINDS_WITH_JSON = ["library", "test"]

# Kinds of which Clang makes the object files of tests, in half of the time that GCC
# takes where nothing is optimised, whatever compiles what they test.
KINDS_BY_CLANG = ["test", "operator_test"]
_JSON = [
    "//base:json_reader",
    "//base:strict_json",
    "//tests/cli:cli_test_base",
    "//tests/faults:scenario",
    "//third_party:nlohmann_json",
]

def _place():
    """Where another workspace that uses this one has it; "" in this one itself."""
    repository = native.repository_name()
    return "" if repository == "@" else "external/%s/" % repository[1:]

def _reads_json(deps):
    # No such target's dependencies are chosen by a select().
    for dep in deps if type(deps) == "list" else []:
        if dep in _JSON or (
            dep.startswith(":") and "//" + native.package_name() + dep in _JSON
        ):
            return True
    return False

def options_of(kind):
    """The compiler's options for files of a kind."""
    options = OPTIONS[kind]
    return select({
        "//third_party/precompiled:asan": options.get("asan", []),
        "//third_party/precompiled:tsan": options.get("tsan", []),
        "//conditions:default": options.get("default", []),
    }) + select({
        "@platforms//cpu:x86_64": options.get("x86_64", []),
        "//conditions:default": [],
    })

# GCC 12 warns of std::string's own moves where it reads them precompiled, as it does
# not where it reads the system's header. Clang does not know the last three.
_WARNINGS = [
    "-Wno-unknown-warning-option",
    "-Wno-array-bounds",
    "-Wno-stringop-overflow",
    "-Wno-stringop-overread",
    "-Wno-restrict",
]

def _is_in(folder):
    package = native.package_name()
    return package == folder or package.startswith(folder + "/")

def _kind(arguments):
    sources = arguments["srcs"]

    # No test's sources are chosen by a select().
    is_test = type(sources) == "list" and [
        source
        for source in sources
        if source.endswith("_test.cc") and not source.endswith("_for_test.cc")
    ]
    if _is_in("kernels"):
        return "kernel_test" if is_test else "kernel"
    if is_test or (arguments.get("testonly") and not _is_in("benchmarks")):
        return "operator_test" if _is_in("runtime/ops") else "test"
    return "planner" if _is_in("memory/plan") else "library"

def _with_headers(rule, precompiled, arguments, kind = None):
    if not arguments.get("srcs"):
        rule(**arguments)
        return
    kind = kind or _kind(arguments)
    copts = options_of(kind)
    deps = arguments.get("deps", [])
    if precompiled:
        # The first that a compiler reads, by the path at which it looks for what it
        # has made of it.
        headers = kind + "_headers"
        if kind in KINDS_WITH_JSON and _reads_json(deps):
            headers = kind + "_json_headers"
        copts = [
            "-include",
            "$(BINDIR)/%sthird_party/precompiled/%s.h" % (_place(), headers),
        ] + _WARNINGS + copts
        deps = deps + ["//third_party/precompiled:" + headers]
    copts = copts + arguments.get("copts", [])
    if not precompiled or kind not in KINDS_BY_CLANG:
        rule(**dict(arguments, copts = copts, deps = deps))
        return
    objects = arguments["name"] + "_objects"
    test_objects(
        name = objects,
        testonly = True,
        srcs = arguments["srcs"],
        hdrs = arguments.get("hdrs", []) + arguments.get("textual_hdrs", []),
        by_clang = True,
        copts = copts,
        # Who asks for everything but some tests gets no part of these.
        tags = ["manual"],
        target_compatible_with = arguments.get("target_compatible_with", []),
        deps = deps,
    )
    rule(**dict(arguments, copts = [], srcs = [objects], deps = deps))

def cc_library(precompiled = True, kind = None, **arguments):
    # No shared library, which //... asks for and nobody uses.
    _with_headers(
        native.cc_library,
        precompiled,
        dict(arguments, linkstatic = True),
        kind,
    )

def cc_binary(precompiled = True, **arguments):
    _with_headers(native.cc_binary, precompiled, arguments)

def cc_test(precompiled = True, kind = None, **arguments):
    _with_headers(
        native.cc_test,
        precompiled,
        dict(arguments, testonly = True),
        kind,
    )
