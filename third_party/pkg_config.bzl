"""Link options of a system library, as pkg-config knows them.

  pkg_config_repository(name = "abseil", modules = ["absl_strings"])

makes @abseil//:abseil, a cc_library without files that links `modules` and what
they need. For libraries whose parts differ from release to release; the others
are named in third_party/BUILD.
"""

_BUILD = """
cc_library(
    name = "{name}",
    # Only what a program uses of them has to be found when it starts.
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

def _pkg_config_repository_impl(context):
    asked = context.execute(["pkg-config", "--libs"] + context.attr.modules)
    if asked.return_code != 0:
        fail("pkg-config does not know all of %s (tools/setup.sh installs what is missing): %s" %
             (", ".join(context.attr.modules), asked.stderr))
    options = [word for word in asked.stdout.strip().split(" ") if word]
    context.file("WORKSPACE", "workspace(name = \"%s\")\n" % context.name)
    context.file("BUILD", _BUILD.format(
        name = context.name,
        linkopts = (["-Wl,--push-state,--as-needed"] + options +
                    ["-Wl,--pop-state"]),
    ))

pkg_config_repository = repository_rule(
    implementation = _pkg_config_repository_impl,
    attrs = {"modules": attr.string_list(mandatory = True)},
    doc = "See this file's head.",
    environ = ["PATH", "PKG_CONFIG_LIBDIR", "PKG_CONFIG_PATH"],
    # Asked anew by each server: a package may have been upgraded.
    local = True,
)
