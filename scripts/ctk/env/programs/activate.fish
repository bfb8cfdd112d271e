# source PREFIX/bin/activate.fish: activates the environment that this file is in, as conda does; `deactivate` undoes it.
# Of the scripts of packages, those for fish run. No path is in it: the environment may be moved.
if functions -q deactivate # another environment, also one of Python's venv
    deactivate
end
if set -q CONDA_PREFIX
    set -gx _CTK_OUTER_PREFIX $CONDA_PREFIX
end
set -gx CONDA_PREFIX (dirname (dirname (realpath (status filename))))
set -gx PATH $CONDA_PREFIX/bin $PATH
functions -c fish_prompt _ctk_outer_prompt
function fish_prompt
    set -l shown (_ctk_outer_prompt) # first: it may show the status of the last command
    printf '(%s) ' (basename $CONDA_PREFIX)
    string join -- \n $shown
end
for script in $CONDA_PREFIX/etc/conda/activate.d/*.fish
    source $script
end

function deactivate -d "Leave the active environment"
    for script in $CONDA_PREFIX/etc/conda/deactivate.d/*.fish
        source $script
    end
    if set -l place (contains -i -- $CONDA_PREFIX/bin $PATH)
        set -e PATH[$place]
    end
    functions -e fish_prompt
    functions -c _ctk_outer_prompt fish_prompt
    functions -e _ctk_outer_prompt deactivate
    set -e CONDA_PREFIX
    if set -q _CTK_OUTER_PREFIX
        set -gx CONDA_PREFIX $_CTK_OUTER_PREFIX
        set -e _CTK_OUTER_PREFIX
    end
end
