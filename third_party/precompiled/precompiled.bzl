"""A header that is parsed once and read from then on as the compiler left it.

GCC looks for HEADER.gch where it finds HEADER, Clang for HEADER.pch where
"-include" says that HEADER is. Where a file is compiled with options that do not
agree with the precompiled one's, GCC reads HEADER itself, and Clang ends with an
error.

Clang compares the files of which a precompiled header was made with those that are
there, by name and size. For it HEADER is empty, and what is precompiled has no name:
it was made elsewhere, maybe, in a sandbox or for another clone (--disk_cache). Bazel
does not watch the system's headers: after they have changed, "bazel clean" makes all
anew, unless a disk cache has the old ones.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _headers(files):
    return [
        DefaultInfo(files = depset(files)),
        CcInfo(compilation_context = cc_common.create_compilation_context(
            headers = depset(files),
        )),
    ]

def _precompiled_header_impl(ctx):
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
    is_clang = "clang" in compiler
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    if is_clang:
        ctx.actions.write(header, "")
        compiled = ctx.actions.declare_file(header.basename + ".pch")
    else:
        ctx.actions.expand_template(
            template = ctx.file.src,
            output = header,
            substitutions = {},
        )
        compiled = ctx.actions.declare_file(header.basename + ".gch")
    flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = flags + ctx.attr.copts,
        use_pic = True,
    )
    command = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = "c++-compile",
        variables = variables,
    )
    ctx.actions.run_shell(
        inputs = depset(
            [ctx.file.src, header],
            transitive = [toolchain.all_files],
        ),
        outputs = [compiled],
        # Clang gets no name to remember, GCC one.
        command = 'source="$1"; shift; exec "$@" <"${source}"',
        arguments = [ctx.file.src.path, compiler] + command + [
            "-x",
            "c++-header",
        ] + (["-Xclang", "-fno-pch-timestamp", "-"] if is_clang else [header.path]) + [
            "-o",
            compiled.path,
        ],
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling " + header.short_path,
    )
    return _headers([header, compiled])

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = "SRC becomes NAME.h and what a compiler made of it, for who depends on it.",
    attrs = {
        "src": attr.label(allow_single_file = [".in"], mandatory = True),
        "copts": attr.string_list(),
        "_cc_toolchain": attr.label(
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
