"""kernel_operator: the targets of one operator's folder.

  kernel_operator(
      name = "activation",
      cpu_deps = [...],
      cuda_hdrs = ["activation_program.h"],
  )

It expects the files that docs/extending.md names (An operator), and makes

  :NAME             the arguments and their check (NAME.h, NAME.cc)
  :cpu, :cuda       RunOnCpu (cpu.cc) and RunOnGpu (cuda.cc)
  :gpu_sizes        GpuWorkspaceBytes (gpu_sizes.cc), for every build
  :program_headers  what these are made of, for other folders' programs, too
  :programs         the GPU's programs (.cu files), compiled by nvcc
  :emulated_programs  the same, compiled by the host's compiler, for tests
  :compiled_programs  :programs without CUDA's runtime, for tests
  :NAME_test        the host's kernels against an oracle (NAME_test.cc)
  :gpu_suite        the GPU's kernels against the host's, or an oracle
                    (NAME_gpu_test.cc)
  :NAME_emulated_test  this suite on the emulated programs; on a GPU it is a
                    part of //kernels:operators_gpu_test, and without one,
                    with what nvcc made, of //kernels:compiled_kernels_test
"""

load("//third_party/cuda:cuda.bzl", "CUDA_ONLY", "cuda_library")
load("//third_party/precompiled:cc.bzl", "cc_library", "cc_test")

def kernel_operator(
        name,
        deps = [],
        srcs = [],
        cpu_deps = [],
        cuda_hdrs = [],
        program_deps = [],
        gpu_sizes = [],
        gpu_sizes_deps = [],
        cuda_deps = [],
        programs = None,
        turing = False,
        test_size = "small",
        test_deps = []):
    """See this file's head.

    Args:
      name: the folder's
      deps: of the arguments' header and the check, besides what all need
      srcs: sources of :NAME besides NAME.cc, and private headers
      cpu_deps: of cpu.cc, besides what all need
      cuda_hdrs: headers of the programs
      program_deps: of these headers, besides kernels/cuda's
      gpu_sizes: gpu_sizes.cc, and its header where cuda.cc shares one; none for
        an operator whose kernels take no workspace
      gpu_sizes_deps: of these, besides what all need
      cuda_deps: of cuda.cc, besides what all need
      programs: .cu files; NAME.cu if not given
      turing: whether these are compiled for compute capability 7.5, too: those
        that a client's run takes (client/client_run.h), whose own operators are
        another framework's
      test_size: of the host's test
      test_deps: of the tests, besides what all need
    """
    programs = programs or [name + ".cu"]
    cc_library(
        name = name,
        srcs = [name + ".cc"] + srcs,
        hdrs = [name + ".h"],
        visibility = ["//kernels:users"],
        deps = [
            "//base:dtype",
            "//base:philox",
            "//device",
            "//kernels:check_size",
            "//third_party:abseil",
        ] + deps,
    )
    cc_library(
        name = "cpu",
        srcs = ["cpu.cc"] + [src for src in srcs if src.endswith(".h")],
        visibility = ["//kernels:__subpackages__"],
        deps = [
            ":" + name,
            "//base:dtype",
            "//device",
            "//kernels/cpu:simd",
            "//third_party:abseil",
            "//third_party:highway",
        ] + cpu_deps,
    )

    # Knows the programs' headers, and launches none of them.
    cc_library(
        name = "gpu_sizes",
        srcs = [src for src in gpu_sizes if src.endswith(".cc")],
        hdrs = [src for src in gpu_sizes if src.endswith(".h")],
        visibility = ["//kernels:__subpackages__"],
        deps = [
            ":" + name,
            ":program_headers",
        ] + gpu_sizes_deps,
    )

    # Links neither programs nor Gemm: //kernels/cuda says who does.
    cc_library(
        name = "cuda",
        srcs = ["cuda.cc"],
        visibility = ["//kernels:__subpackages__"],
        deps = [
            ":" + name,
            ":gpu_sizes",
            ":program_headers",
            "//base:dtype",
            "//base:status_macros",
            "//device",
            "//kernels:operators",
            "//kernels/cuda:launch",
            "//third_party:abseil",
        ] + cuda_deps,
    )
    cc_library(
        name = "program_headers",
        hdrs = cuda_hdrs,
        visibility = ["//kernels:__subpackages__"],
        deps = ["//kernels/cuda:program_headers"] + program_deps,
    )
    cuda_library(
        name = "programs",
        srcs = programs,
        # constexpr functions of base/ on the device.
        copts = ["--expt-relaxed-constexpr"],
        turing = turing,
        visibility = ["//kernels:__subpackages__"],
        deps = [":program_headers"],
    )

    # The same without CUDA's runtime, in whose place tests have another.
    cc_library(
        name = "compiled_programs",
        testonly = True,
        srcs = [":programs_nvcc"],
        visibility = ["//kernels:__subpackages__"],
        target_compatible_with = CUDA_ONLY,
    )

    # Bazel takes no .cu file for C++: a source that includes it does.
    native.genrule(
        name = "emulated_sources",
        testonly = True,
        outs = ["emulated_%s.cc" % program[:-len(".cu")] for program in programs],
        cmd = "\n".join([
            "echo '#include \"%s/%s\"' >$(RULEDIR)/emulated_%s.cc" % (
                native.package_name(),
                program,
                program[:-len(".cu")],
            )
            for program in programs
        ]),
    )
    cc_library(
        name = "emulated_programs",
        testonly = True,
        srcs = [":emulated_sources"],
        kind = "emulated_program",
        textual_hdrs = programs,
        visibility = ["//kernels:__subpackages__"],
        deps = [
            ":program_headers",
            "//kernels/cuda:emulated_block",
        ],
        alwayslink = True,
    )
    cc_test(
        name = name + "_test",
        size = test_size,
        srcs = [name + "_test.cc"],
        deps = [
            ":" + name,
            "//base:dtype",
            "//base:philox",
            "//base:thread_pool",
            "//kernels:run",
            "//kernels/testing:guarded_buffer",
            "//kernels/testing:kernel_test_util",
            "//kernels/testing:run_everywhere",
            "//third_party:abseil",
            "//third_party:gtest_main",
        ] + test_deps,
    )
    cc_library(
        name = "gpu_suite",
        testonly = True,
        srcs = [name + "_gpu_test.cc"],
        deps = [
            ":" + name,
            ":program_headers",
            "//base:philox",
            "//kernels/testing:gpu_operator_test",
            "//third_party:gtest_main",
        ] + test_deps,
        visibility = ["//kernels:__subpackages__"],
        alwayslink = True,
    )
    cc_test(
        name = name + "_emulated_test",
        size = "small",
        linkstatic = True,
        deps = [
            ":gpu_suite",
            "//kernels/cuda:emulation",
        ],
    )
