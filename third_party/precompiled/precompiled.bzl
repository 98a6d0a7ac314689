"""A header that is parsed once and read from then on as the compiler left it.

GCC looks for HEADER.gch where it finds HEADER, and reads HEADER itself where a
file is compiled with options that do not agree with the precompiled one's. Clang
would have to be told where it is; for it HEADER is empty, which shows besides
that no file relies on what HEADER includes.
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
    header = ctx.actions.declare_file(ctx.file.src.basename[:-len(".in")])
    if "clang" in compiler:
        ctx.actions.write(header, "")
        return _headers([header])
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
    ctx.actions.run(
        inputs = depset([header], transitive = [toolchain.all_files]),
        outputs = [compiled],
        executable = compiler,
        arguments = command + [
            "-x",
            "c++-header",
            header.path,
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
    doc = "SRC, NAME.h.in, becomes NAME.h and NAME.h.gch for who depends on it.",
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
