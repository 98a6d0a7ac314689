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

load(":command.bzl", "COMPILER_ATTRS", "compile_command")

_OF_CLANG = [
    "-Xclang",
    "-fno-pch-timestamp",
    # What the headers instantiate, no file that reads them instantiates again.
    "-fpch-instantiate-templates",
]

# Nor does any file compile again the functions that the headers define: they are in
# an object file that is linked with whatever reads the headers. Where optimised code
# takes in what it calls, that gains nothing.
_FUNCTIONS_ONCE = "-fpch-codegen"

def _headers(files, linking_context = None):
    return [
        DefaultInfo(files = depset(files)),
        CcInfo(
            compilation_context = cc_common.create_compilation_context(
                headers = depset(files),
            ),
            linking_context = linking_context,
        ),
    ]

def _functions_of(ctx, compile, compiled):
    """The linking context of the functions that a precompiled header defines."""
    object = ctx.actions.declare_file(ctx.label.name + ".functions.o")
    ctx.actions.run(
        executable = compile.command[0],
        arguments = compile.command[1:] +
                    ["-c", compiled.path, "-o", object.path],
        inputs = depset([compiled], transitive = [compile.toolchain]),
        outputs = [object],
        env = compile.env,
        mnemonic = "CompileHeader",
        progress_message = "Compiling " + compiled.short_path,
    )
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = compile.features,
        cc_toolchain = compile.cc_toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            pic_objects = depset([object]),
        ),
        disallow_dynamic_library = True,
    )
    return linking_context

def _precompiled_header_impl(ctx):
    compile = compile_command(ctx, ctx.attr.copts)
    is_clang = compile.is_clang
    functions_once = is_clang and "-O0" in ctx.attr.copts
    options = []
    if is_clang:
        options = _OF_CLANG + ([_FUNCTIONS_ONCE] if functions_once else []) + ["-"]
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
    ctx.actions.run_shell(
        inputs = depset(
            [ctx.file.src, header],
            transitive = [compile.toolchain],
        ),
        outputs = [compiled],
        # Clang gets no name to remember, GCC one.
        command = 'source="$1"; shift; exec "$@" <"${source}"',
        arguments = [ctx.file.src.path] + compile.command + [
            "-x",
            "c++-header",
        ] + (options or [header.path]) + [
            "-o",
            compiled.path,
        ],
        env = compile.env,
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling " + header.short_path,
    )
    return _headers(
        [header, compiled],
        _functions_of(ctx, compile, compiled) if functions_once else None,
    )

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = "SRC becomes NAME.h and what a compiler made of it, for who depends on it.",
    attrs = dict(
        COMPILER_ATTRS,
        src = attr.label(allow_single_file = [".in"], mandatory = True),
        copts = attr.string_list(),
    ),
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
