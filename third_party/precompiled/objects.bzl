"""Object files of tests, for cc.bzl."""

load(":command.bzl", "COMPILER_ATTRS", "compile_command")

def _objects_impl(ctx):
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    copts = [
        ctx.expand_make_variables("copts", option, {})
        for option in ctx.attr.copts
    ]
    compile = compile_command(ctx, copts, context)
    headers = [file for file in ctx.files.srcs if file.extension == "h"]
    headers += ctx.files.hdrs
    objects = []
    for source in ctx.files.srcs:
        if source.extension == "h":
            continue
        object = ctx.actions.declare_file("_objs/%s/%s.o" % (
            ctx.label.name,
            source.basename[:-len(".cc")],
        ))
        ctx.actions.run(
            executable = compile.command[0],
            arguments = compile.command[1:] +
                        ["-c", source.path, "-o", object.path],
            inputs = depset(
                [source] + headers,
                transitive = [context.headers, compile.toolchain],
            ),
            outputs = [object],
            env = compile.env,
            mnemonic = "CompileTest",
            progress_message = "Compiling " + source.short_path,
        )
        objects.append(object)
    return [DefaultInfo(files = depset(objects))]

test_objects = rule(
    implementation = _objects_impl,
    doc = "An object file of each .cc file among SRCS; the others are headers.",
    attrs = dict(
        COMPILER_ATTRS,
        srcs = attr.label_list(allow_files = [".cc", ".h"], mandatory = True),
        hdrs = attr.label_list(allow_files = True),
        deps = attr.label_list(providers = [CcInfo]),
        copts = attr.string_list(),
    ),
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
