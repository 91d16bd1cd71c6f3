"""The views that live in a notebook; import the one you need from its own module.

Nothing is imported here, so that ``import nbdebug`` needs neither ipywidgets nor a browser.
"""
