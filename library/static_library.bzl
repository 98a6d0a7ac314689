"""One static library of all that a cc_library and its dependencies are made of, for
programs that other build systems link, and for the shared library.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _static_library_impl(ctx):
    archives = []
    flags = []
    inputs = ctx.attr.library[CcInfo].linking_context.linker_inputs.to_list()
    for input in inputs:
        flags += input.user_link_flags
        for library in input.libraries:
            archive = library.pic_static_library or library.static_library
            if archive:
                archives.append(archive)

    # Members of one name, of different folders, stay beside each other.
    script = ctx.actions.declare_file(ctx.label.name + ".mri")
    ctx.actions.write(script, "\n".join(
        ["CREATE " + ctx.outputs.archive.path] +
        ["ADDLIB " + archive.path for archive in archives] +
        ["SAVE", "END", ""],
    ))
    toolchain = find_cpp_toolchain(ctx)
    ctx.actions.run_shell(
        command = "%s -M <%s" % (toolchain.ar_executable, script.path),
        inputs = depset(
            archives + [script],
            transitive = [toolchain.all_files],
        ),
        outputs = [ctx.outputs.archive],
        mnemonic = "OneArchive",
        progress_message = "Archiving " + ctx.outputs.archive.short_path,
    )

    # Each as it comes last: what is used comes after who uses it.
    last = []
    for flag in reversed(flags):
        if flag not in last:
            last.append(flag)
    last = reversed(last)
    ctx.actions.write(ctx.outputs.flags, " ".join(last) + "\n")

    # Whoever links the target has all of it, used or not.
    whole = cc_common.create_library_to_link(
        actions = ctx.actions,
        feature_configuration = cc_common.configure_features(
            ctx = ctx,
            cc_toolchain = toolchain,
            requested_features = ctx.features,
            unsupported_features = ctx.disabled_features,
        ),
        cc_toolchain = toolchain,
        pic_static_library = ctx.outputs.archive,
        alwayslink = True,
    )
    linked = cc_common.create_linker_input(
        owner = ctx.label,
        libraries = depset([whole]),
        user_link_flags = depset(last),
    )
    return [
        DefaultInfo(files = depset([ctx.outputs.archive, ctx.outputs.flags])),
        CcInfo(linking_context = cc_common.create_linking_context(
            linker_inputs = depset([linked]),
        )),
    ]

static_library = rule(
    implementation = _static_library_impl,
    doc = "ARCHIVE, and in the file FLAGS what is linked of the system's with it.",
    attrs = {
        "library": attr.label(mandatory = True, providers = [CcInfo]),
        "archive": attr.output(mandatory = True),
        "flags": attr.output(mandatory = True),
        "_cc_toolchain": attr.label(
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
