"""Where nbdebug meets other tools: IPython magics, JupyterLab, Lightning, Hugging Face, Keras, fastai."""
