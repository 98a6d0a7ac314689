"""How a page of TypeScript becomes C++ source."""

def castor_page(name, entry, function):
    """Bundles src/`entry` to `name`.html, and to `name`_page.cc.

    Args:
      name: of the page; the rule's too.
      entry: its first source, whose imports follow.
      function: the C++ function that returns it, declared in page.h.
    """
    native.genrule(
        name = name,
        srcs = [
            ":sources",
            "build.mjs",
        ],
        outs = [
            name + ".html",
            name + "_page.cc",
        ],
        # The packages of node_modules are found from the real place of the
        # script: they are no inputs that Bazel knows, but the lock file is.
        cmd = """
            command -v node >/dev/null || {
              echo "there is no node; run tools/setup.sh" >&2; exit 1; }
            here="$$(dirname "$$(readlink -f $(location build.mjs))")"
            node "$$here/build.mjs" "$$here/src/%s" \
              "$(location %s.html)" "$(location %s_page.cc)" %s
        """ % (entry, name, name, function),
        message = "Bundling the page " + name,
        tags = [
            "local",
            "no-sandbox",
        ],
    )
