"""The command that compiles a file as Bazel's own rules would, by the compiler that
they use or by Clang in its place."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# Where Debian's package has it.
_CLANG = "/usr/bin/clang"

# What Bazel gives GCC, and Clang does not know.
_OF_GCC = [
    "-fno-canonical-system-headers",
    "-Wno-free-nonheap-object",
]

# The attributes that compile_command() wants of its rule.
COMPILER_ATTRS = {
    "by_clang": attr.bool(doc = "Clang compiles, whatever compiles the rest."),
    "_cc_toolchain": attr.label(
        default = "@bazel_tools//tools/cpp:current_cc_toolchain",
    ),
}

def compile_command(ctx, copts, context = None):
    """How a file of C++ is compiled.

    Args:
      ctx: of a rule with COMPILER_ATTRS, which names the fragment "cpp".
      copts: options after those of the command line.
      context: the CcCompilationContext of what the file includes, if that is more
        than the system's headers.

    Returns:
      A struct: command (the compiler and its options; neither source nor output),
      env, toolchain (a depset of the files that the compiler is), is_clang, and for
      cc_common's functions cc_toolchain and features.
    """
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    compiler = cc_common.get_tool_for_action(
        feature_configuration = features,
        action_name = "c++-compile",
    )
    places = {} if context == None else dict(
        include_directories = context.includes,
        quote_include_directories = depset(
            [".", ctx.bin_dir.path],
            transitive = [context.quote_includes],
        ),
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
    )
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts +
                             copts,
        use_pic = True,
        **places
    )
    options = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = "c++-compile",
        variables = variables,
    )
    if ctx.attr.by_clang and "clang" not in compiler:
        compiler = _CLANG
        options = [option for option in options if option not in _OF_GCC]
    return struct(
        command = [compiler] + options,
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        toolchain = toolchain.all_files,
        cc_toolchain = toolchain,
        features = features,
        is_clang = "clang" in compiler,
    )
