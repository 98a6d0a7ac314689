"""cuda_library: a library of .cu files, compiled by nvcc.

  cuda_library(
      name = "moves",
      srcs = ["moves.cu"],
      hdrs = ["moves.h"],
      deps = [...],              # cc_libraries; @cuda//:cudart comes by itself
      archs = ["90a"],           # besides ARCHS
      turing = True,             # also where ARCHS has 75
  )

One action for each .cu file. It exists where CUDA does: `//...` passes it over
elsewhere, and who depends on it does so in a select() on @cuda//:enabled.

Flags. Machine code for the architectures ARCHS (repository.bzl), and PTX of
one of them for what comes after. The host's half is compiled as the rest of the repository. --fmad=false:
nvcc would otherwise fuse a * b + c where it sees fit, so that bits depended on
its version, its options and the GPU's generation, and could not equal the
host's (kernels/adam/adam.h). A kernel that wants a fused operation writes fmaf().
Division and square root are correctly rounded, and denormals kept, by default.
"""

load("@cuda//:info.bzl", "ARCHS", "NVCC", "PTX", "TOOLS")

# For targets that are there only where CUDA is.
CUDA_ONLY = select({
    "@cuda//:enabled": [],
    "//conditions:default": ["@platforms//:incompatible"],
})

# For targets that are there only where cuBLASLt's headers are, too.
CUBLASLT_ONLY = select({
    "@cuda//:cublaslt": [],
    "//conditions:default": ["@platforms//:incompatible"],
})

# For tests of the PTX that nvcc makes: NVIDIA's tools take it out of archives.
PTX_ONLY = CUDA_ONLY if TOOLS else ["@platforms//:incompatible"]

_FLAGS = [
    "-std=c++20",
    "-O3",
    "--fmad=false",
    "-lineinfo",
    "-Xfatbin=-compress-all",  # programs travel (tools/gpu_bundle.sh)
    "-Xcompiler=-fPIC,-ffp-contract=off,-fno-strict-aliasing,-Wall",
    "-Xcompiler=-Wno-unused-parameter",
    "-Xcudafe=--diag_suppress=20012",  # of Abseil's annotations
]

def _gencode(arch):
    return "-gencode=arch=compute_%s,code=sm_%s" % (arch, arch)

def _nvcc_archive_impl(ctx):
    cc = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    headers = depset(transitive = [c.headers for c in cc])
    common = ctx.actions.args()
    common.add_all(_FLAGS)
    if "-Werror" in ctx.fragments.cpp.copts:  # --config=werror
        common.add("-Werror=all-warnings")
    common.add("-I.")
    for arch in ARCHS + ctx.attr.archs:
        if arch != "75" or ctx.attr.turing:
            common.add(_gencode(arch))
    common.add("-gencode=arch=compute_%s,code=compute_%s" % (PTX, PTX))
    common.add_all(ctx.attr.copts)
    for c in cc:
        common.add_all(c.defines, before_each = "-D")
        common.add_all(c.includes, before_each = "-I")
        common.add_all(c.system_includes, before_each = "-isystem")
        common.add_all(c.quote_includes, before_each = "-I")
    objects = []
    for src in ctx.files.srcs:
        object = ctx.actions.declare_file("%s/%s.o" % (
            ctx.label.name,
            src.basename[:-len(".cu")],
        ))
        ctx.actions.run(
            executable = NVCC,
            arguments = [common, "-c", src.path, "-o", object.path],
            inputs = depset(
                ctx.files.srcs + ctx.files.hdrs,
                transitive = [headers],
            ),
            outputs = [object],
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s by nvcc" % src.short_path,
            use_default_shell_env = True,
        )
        objects.append(object)
    archive = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    ctx.actions.run_shell(
        command = "rm -f $1 && ar rcsD $@",
        arguments = [archive.path] + [object.path for object in objects],
        inputs = objects,
        outputs = [archive],
        mnemonic = "CudaArchive",
        use_default_shell_env = True,
    )
    return [DefaultInfo(
        files = depset([archive]),
        runfiles = ctx.runfiles(files = [archive]),
    )]

_nvcc_archive = rule(
    implementation = _nvcc_archive_impl,
    fragments = ["cpp"],
    attrs = {
        "archs": attr.string_list(),
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "srcs": attr.label_list(allow_files = [".cu"], mandatory = True),
        "turing": attr.bool(),
    },
)

def cuda_library(
        name,
        srcs,
        hdrs = [],
        deps = [],
        archs = [],
        copts = [],
        turing = False,
        visibility = None):
    """See this file's head.

    Args:
      name: of the library
      srcs: .cu files
      hdrs: headers, for users of the library and for its own files
      deps: cc_library or cuda_library targets
      archs: to compile for besides ARCHS
      copts: for nvcc
      turing: whether GPUs of compute capability 7.5 run it, too
      visibility: of the library
    """
    deps = deps + ["@cuda//:cudart"]
    _nvcc_archive(
        name = name + "_nvcc",
        srcs = srcs,
        hdrs = hdrs,
        archs = archs,
        copts = copts,
        turing = turing,
        deps = deps,
        target_compatible_with = CUDA_ONLY,
        # The archive itself is what //kernels:machine_code_test reads.
        visibility = ["//kernels:__pkg__"],
    )
    native.cc_library(
        name = name,
        srcs = [":%s_nvcc" % name],
        hdrs = [hdr for hdr in hdrs if hdr.endswith(".h")],
        textual_hdrs = [hdr for hdr in hdrs if not hdr.endswith(".h")],
        deps = deps,
        linkstatic = True,
        target_compatible_with = CUDA_ONLY,
        visibility = visibility,
    )
