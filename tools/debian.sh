# Sourced by the scripts that make a Debian system in a folder: what apt knows
# on this machine.

# debian_repository LABEL: the address of the machine's first repository with
# that label ("Debian", "Debian-Security").
debian_repository() {
  apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
    awk -v label="$1" '$1 == label && !found { print $2; found = 1 }'
}

# How apt reaches its repositories (proxies, retries, checks of dates), as lines
# of a configuration file.
debian_apt_options() {
  apt-config dump --no-empty Acquire |
    grep -E '^Acquire::(https?|ftp|ForceIPv|Retries|Check-)' || true
}
